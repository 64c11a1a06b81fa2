"""BUDGETS OVER TIME: the account of this process."""
