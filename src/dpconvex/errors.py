"""Errors and warnings. A message says what is wrong, what was expected and what to do; it never holds a row."""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "BudgetError",
    "BudgetWarning",
    "DpconvexError",
    "FormError",
    "HopelessFitWarning",
    "HypothesisError",
    "InputError",
    "NotPrivateWarning",
    "PrivacyLeakWarning",
    "ReleaseError",
    "RepeatedReleaseWarning",
    "SelectionWarning",
    "UnavailableError",
    "VerificationError",
]


class DpconvexError(Exception):
    """Base of every error the library raises on purpose."""


class InputError(DpconvexError, ValueError):
    """An argument has the wrong form. Raised before anything is released."""


class FormError(InputError):
    """Data have the wrong form: a mistake of whoever holds them, for which a run is not charged."""


class HypothesisError(DpconvexError, ValueError):
    """A theorem was asked for a conclusion outside its hypotheses."""


class ReleaseError(DpconvexError, RuntimeError):
    """A run tried to release something its plan does not name, or left a planned release out."""


class VerificationError(DpconvexError, ValueError):
    """A receipt contradicts itself."""


class BudgetError(DpconvexError, RuntimeError):
    """A run would exceed the limit set for its data. Nothing was drawn or charged."""


class UnavailableError(DpconvexError, RuntimeError):
    """Something outside the library is not to be had: a download, or a package that an extra brings."""


class NotPrivateWarning(UserWarning):
    """The noise can be reproduced by whoever knows the seed: good for tests, worthless as protection."""


class BudgetWarning(UserWarning):
    """The budget is legal but says little, for example delta of 1/n or more."""


class HopelessFitWarning(BudgetWarning):
    """So little is left by the noise that the model is likely to be no better than one without features."""


class PrivacyLeakWarning(UserWarning):
    """Something that was not declared was read from the data, and no guarantee covers it."""


class SelectionWarning(PrivacyLeakWarning):
    """Something is scored, selected or adjusted by rows without noise."""


class RepeatedReleaseWarning(UserWarning):
    """The same data was used before: what the releases give away adds up."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the library that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpconvex."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
