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
    "LedgerError",
    "NotPrivateWarning",
    "PartsError",
    "PrivacyLeakWarning",
    "ReleaseError",
    "RepeatedReleaseWarning",
    "RowError",
    "SelectionWarning",
    "SignatureError",
    "UnavailableError",
    "UserCodeError",
    "VerificationError",
]


_PASSED_ON = ("dpconvex.", "sklearn.", "joblib.")  # modules whose callers a warning is for
_ONCE = ("default", "module", "once")  # actions that show a warning once
_shown: set[tuple[str, int, type[Warning], str]] = set()


class DpconvexError(Exception):
    """Base of every error the library raises on purpose."""


class InputError(DpconvexError, ValueError):
    """An argument has the wrong form. Raised before anything is released."""


class FormError(InputError):
    """Data have the wrong public form (shape, types): seen before a run is charged."""


class RowError(InputError):
    """Rows hold what was not declared. Seen in a run: nothing was released, and the run stays charged.

    That there is such a row is then known without noise, so fits that others may ask for are to go through a schema,
    which has a substitute for every cell.
    """


class PartsError(DpconvexError, RuntimeError):
    """A part of the data could not be read, or is not what was declared. Nothing was released; the run is charged."""


class HypothesisError(DpconvexError, ValueError):
    """A theorem was asked for a conclusion outside its hypotheses."""


class ReleaseError(DpconvexError, RuntimeError):
    """A run tried to release something its plan does not name, or left a planned release out."""


class UserCodeError(DpconvexError, RuntimeError):
    """The user's own code failed within a run. What it said is not shown, since it may hold values of records."""


class VerificationError(DpconvexError, ValueError):
    """A receipt contradicts itself."""


class SignatureError(VerificationError):
    """A signature is missing, does not match, or is of a key that is not trusted."""


class BudgetError(DpconvexError, RuntimeError):
    """A run that the limit or the ledger of its data does not allow. Nothing was drawn or charged."""


class LedgerError(DpconvexError, RuntimeError):
    """A ledger cannot be read or written, or was altered. Nothing was released."""


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


def warn(message: str, category: type[Warning], cause: str | None = None) -> None:
    """Warn at the line outside this library, and outside scikit-learn, that led here.

    Filters that show a warning once per line show it once per `cause`, by default the message. Python forgets what it
    has shown whenever filters change, which scikit-learn does in every fold.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_PASSED_ON):
        frame = frame.f_back
    module, line = str(frame.f_globals.get("__name__", "")), frame.f_lineno
    place = (frame.f_code.co_filename, line, category, cause or message)
    if _action(message, category, module, line) in _ONCE and place in _shown:
        return
    _shown.add(place)
    warnings.warn_explicit(message, category, frame.f_code.co_filename, line, module)


def _action(message: str, category: type[Warning], module: str, line: int) -> str:
    """What the first filter that applies does with a warning."""
    for action, text, kind, place, number in warnings.filters:
        asked = text is None or text.match(message)
        if asked and issubclass(category, kind) and (place is None or place.match(module)) and number in (0, line):
            return action
    return "default"
