"""The data sets that `make bench-accuracy` takes where it is given none."""

import numpy as np
import pytest
from accuracy import public, task

KINDS = {"adult (raw)": "binary", "digits": "classes", "breast cancer": "binary", "diabetes": "regression"}


@pytest.mark.parametrize("name", sorted({*public(), *KINDS}))
def test_a_public_set_loads_with_rows_in_the_unit_ball_and_targets_within_their_range(name):
    X, y, Xt, yt = public()[name]()
    assert task(y) == task(yt) == KINDS[name]
    for rows, targets in ((X, y), (Xt, yt)):
        assert rows.shape == (len(targets), X.shape[1])
        assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-12
        assert np.isfinite(targets).all()
        assert (rows[:, -1] == X[0, -1]).all()  # the constant feature
        assert X[0, -1] > 0.0
        if KINDS[name] == "regression":
            assert abs(targets).max() <= 1.0


def test_adult_is_the_official_split():
    X, y, Xt, yt = public()["adult (raw)"]()
    assert (len(X), len(Xt)) == (32_561, 16_281)
    assert 0.23 < yt.mean() < y.mean() < 0.25
