"""WHY IT IS PRIVATE: budgets, profiles, theorems and receipts. Only this room can state a guarantee.

Read in this order: `profiles` (what a guarantee is), `claims` (how one is made), `theorems` (when one is true),
`calibrate` (how much noise it takes), `receipt` (how it is written down and checked again).
"""
