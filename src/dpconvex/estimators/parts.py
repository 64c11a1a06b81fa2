"""Parts for estimators: what is declared about them, and what opens their batches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from dpconvex.data.encoding import Encoding
from dpconvex.data.parts import Parts
from dpconvex.errors import InputError
from dpconvex.estimators.table import Declared, Opened, Table, Units
from dpconvex.problem.bounds import L2

if TYPE_CHECKING:
    from dpconvex.estimators.base import PrivateLinearModel


@dataclass(frozen=True)
class _Opener:
    """Opens a batch as the model would open all rows: a table of the schema, or what `within` makes rows of numbers."""

    model: PrivateLinearModel
    declared: Declared
    within: Any  # the opener of the parts
    takes: frozenset[str] = frozenset()  # what the algorithm takes of records

    def __repr__(self) -> str:
        return "<opener of batches>"

    def __call__(self, batch: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
        schema = self.declared.schema
        if schema is None:
            X, y, weights = self.within(batch)
            n = X.shape[0]
        else:
            X, y, weights = (*batch, None, None)[:3] if isinstance(batch, tuple) else (batch, None, None)
            encoded = Encoding(schema).rows(X)
            n = encoded.shape[0]
        target = self.model._read_target(self.declared, X, y)
        if weights is not None and self.declared.weight_cap is None:
            raise InputError("holds weights: declare weight_cap, the largest that counts")
        rows = Opened(np.empty((n, 0)), L2(1.0), 0.0, 1, None)  # of which weights need the number
        units = self.declared.open_units(rows, target, weights, None)
        weights = Table(rows, target, units).weights_for(self.takes)
        return X if schema is None else encoded, target.values, weights


def weighed(parts: Parts, takes: Collection[str]) -> Parts:
    """Opened parts for an algorithm that takes these things of records: rows without a target have weight 0."""
    assert isinstance(parts.opener, _Opener)
    return parts.opened(replace(parts.opener, takes=frozenset(takes)), parts.width())


def open_parts(model: PrivateLinearModel, declared: Declared, parts: Parts, public: tuple[str, ...]) -> Table:
    """Declared facts and an opener for parts. Nothing is read from them but the number of columns.

    Raises
    ------
    InputError
        If a public fact is not declared.
    """
    missing = ["feature_bound"] if declared.schema is None and declared.feature_bound is None else []
    if declared.schema is None or declared.schema.target is None:
        missing += [name for name in public if getattr(declared, name) is None]
    if missing:
        raise InputError(
            f"no public facts are read from parts: declare {' and '.join(missing)}, or a schema with a target"
        )
    target = model._read_target(declared, None, np.empty(0))
    if declared.schema is None:
        d = parts.width()
        rows = declared.rows_within(np.broadcast_to(0.0, (0, d)), declared.feature_bound)
    else:
        rows = declared.open_table(None)
        d = rows.d
    opener = _Opener(clone(model).set_params(random_state=None), declared, parts.opener)
    if parts.person is not None and rows.rows_per_person > 1:
        parts = parts.limited(rows.rows_per_person)
    people = parts.person if parts.most is None else None
    weighted = declared.class_weight is not None or declared.weight_cap is not None
    return Table(rows._replace(X=parts.opened(opener, d)), target, Units(people=people, weighted=weighted))
