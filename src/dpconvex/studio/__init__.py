"""A page on this computer for people who do not program: what privacy will cost, schemas, receipts, ledgers, attacks.

It reads no rows. What it is given are public facts and what was released already.
"""

from dpconvex.studio.app import make_app, serve

__all__ = ["make_app", "serve"]
