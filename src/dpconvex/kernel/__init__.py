"""WHY IT IS PRIVATE: budgets, profiles, claims and receipts. Only this room and the theorems can state a guarantee.

Read in this order: `profiles` (what a guarantee is), `claims` (how one is made), `combining` (new ones from given
ones), `receipt` (how one is written down).
"""
