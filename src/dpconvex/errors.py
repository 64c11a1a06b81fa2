"""Errors and warnings. A message says what is wrong, what was expected and what to do; it never holds a row."""


class DpconvexError(Exception):
    """Base of every error the library raises on purpose."""


class InputError(DpconvexError, ValueError):
    """An argument has the wrong form. Raised before anything is charged, drawn or released."""


class HypothesisError(DpconvexError, ValueError):
    """A theorem was asked for a conclusion outside its hypotheses."""


class ReleaseError(DpconvexError, RuntimeError):
    """A run tried to release something its plan does not name, or left a planned release out."""


class VerificationError(DpconvexError, ValueError):
    """A receipt contradicts itself."""


class NotPrivateWarning(UserWarning):
    """The noise can be reproduced by whoever knows the seed: good for tests, worthless as protection."""


class BudgetWarning(UserWarning):
    """The budget is legal but says little, for example delta of 1/n or more."""
