"""Descriptions of the parameters that private models share, written into the docstring of each model."""

from __future__ import annotations

import inspect
from typing import Any

# By the first name of each entry, in the order in which they are listed.
_DESCRIPTIONS = {
    "epsilon": """\
    epsilon, delta : float, default=1.0 and 1e-6
        The budget of one call of `fit`. Keep delta well below one over the number of rows.
""",
    "schema": """\
    schema : Schema, optional
        The public facts of a table. With a schema, `fit` takes raw frames: text, dates, missing values. The schema also
        declares the target, the bound on a row and the number of rows per person, and it names the data set in the
        account of the process.
""",
    "feature_bound": """\
    feature_bound : float or one of `dpconvex.bounds`, optional
        Bound on each row; a float bounds the l2 norm. Rows beyond the bound are scaled back to it. Not allowed with a
        schema, which implies the bound. If neither is given, the longest row is read from the data, with a
        `PrivacyLeakWarning`.
""",
    "classes": """\
    classes : sequence of labels, optional
        All possible labels. If neither `classes` nor a schema is given, they are read from `y`, with a
        `PrivacyLeakWarning`.
""",
    "target_range": """\
    target_range : pair of float, optional
        The smallest and the largest possible target; targets outside are clipped. If neither `target_range` nor a
        schema is given, the range is read from `y`, with a `PrivacyLeakWarning`.
""",
    "fit_intercept": """\
    fit_intercept : bool, default=True
        Whether to append a constant feature. It counts towards the bound on a row.
""",
    "algorithm": """\
    algorithm : "auto", the name of an algorithm or an instance, default="auto"
        "auto" asks `dpconvex.choose`.
""",
    "relation": """\
    relation : {"replace_one", "zero_out"}, default="replace_one"
        The neighbouring relation: one record replaced by any other, or its contribution masked.
""",
    "rows_per_person": """\
    rows_per_person : int, default=1
        The largest number of rows per person; the guarantee then covers all rows of a person together.
""",
    "weight_cap": """\
    weight_cap : float, optional
        Upper bound on `sample_weight`; larger weights are clipped. The noise is proportional to it. If weights are
        given without a cap, the largest is read from the data, with a `PrivacyLeakWarning`.
""",
    "class_weight": """\
    class_weight : dict from labels to numbers, optional
        Weight of the rows of each class, 1 for classes not named. Declared, never counted from the data.
""",
    "random_state": """\
    random_state : int or RandomState, optional
        For tests only. None draws cryptographic noise; anything else makes the noise reproducible, and the receipt says
        that the fit is not private.
""",
    "strict": """\
    strict : bool, default=False
        Raise `InputError` instead of reading undeclared facts from the data.
""",
}


def documented(model: type[Any]) -> type[Any]:
    """Replace {shared} in a docstring by the parameters of the constructor that it does not describe itself."""
    doc, accepted = str(model.__doc__), inspect.signature(model).parameters
    shared = (
        text
        for name, text in _DESCRIPTIONS.items()
        if name in accepted and not any(f"\n    {name}{end}" in doc for end in (",", " :"))
    )
    model.__doc__ = doc.replace("    {shared}\n", "".join(shared))
    return model
