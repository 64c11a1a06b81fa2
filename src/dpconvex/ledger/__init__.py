"""BUDGETS OVER TIME: the account of this process, ledgers that persist, signatures."""
