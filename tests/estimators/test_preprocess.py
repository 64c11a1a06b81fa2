import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from clinic import N_TEST, RANGES, TYPICALS, N, patients, plain_auc, private_auc
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from dpconvex.data.schema import Category, Classes, Date, Ignore, Number, Schema
from dpconvex.errors import InputError
from dpconvex.estimators.preprocess import PrivatePreprocessor

SCHEMA = Schema(
    {
        "age": Number(20, 100),
        "lab": Number(0, 50, typical=(1, 3), missing="flag"),
        "cost": Number(-1e6, 1e6, log=True),
        "sex": Category(["F", "M"], missing="category"),
        "id": Ignore("identifies the person"),
        "ward": Category([1, 2, 3], missing="zeros", unknown="zeros"),
        "seen": Date("2015-01-01", "2024-12-31", missing="flag"),
    },
    target=Classes("ill", [0, 1]),
)
TABLE = {
    "age": [20.0, 60.0, None, 1e9],
    "lab": [2.0, None, 1.0, 50.0],
    "cost": [0.0, -1e6, 1e6, None],
    "sex": ["M", None, "F", "F"],
    "id": ["a", "b", "c", "d"],
    "ward": [1, 4, None, 3],
    "seen": ["2015-01-01", None, "2024-12-31", "2030-01-01"],
}
NAMES = [
    *("age", "lab", "lab is missing", "cost"),
    *("sex=F", "sex=M", "sex is missing", "ward=1", "ward=2", "ward=3"),
    *("seen", "seen is missing"),
]
FOUR = math.sqrt(4 / 4 + 0.75 * 2)  # what four numbers are kept within


def encoded(schema, table, **options):
    return PrivatePreprocessor(schema, **options).fit_transform(table)


# Encoding ----------------------------------------------------------------------------------------------------------


def test_the_encoding_is_the_one_described():
    numbers = np.array([[-1, 0, 0, -1], [0, 1, -1, 1], [0, -1, 1, 1], [1, 2, 0, 1]], dtype=float)
    length = np.linalg.norm(numbers, axis=1, keepdims=True)
    numbers *= np.minimum(1.0, FOUR / length)
    rows = np.zeros((4, 12))
    rows[:, [0, 1, 3, 10]] = numbers
    rows[1, [2, 11]], rows[1, [1, 10]] = rows[1, [1, 10]], 0.0  # what is missing stands in a column of its own
    rows[[0, 1, 2, 3], [5, 6, 4, 4]] = 1.0
    rows[[0, 3], [7, 9]] = 1.0
    found = PrivatePreprocessor(SCHEMA).fit(TABLE)
    assert np.allclose(found.transform(TABLE), rows / math.sqrt(FOUR**2 + 2 + 1), atol=1e-15)
    assert found.get_feature_names_out().tolist() == NAMES
    assert found.constant_ == pytest.approx(1 / math.sqrt(FOUR**2 + 3))
    assert found.row_bound_**2 + found.constant_**2 == pytest.approx(1.0)


def test_sparse_and_dense_agree():
    dense, thin = encoded(SCHEMA, TABLE), encoded(SCHEMA, TABLE, sparse_output=True)
    assert sparse.issparse(thin)
    assert thin.format == "csr"
    assert thin.has_canonical_format
    assert np.array_equal(thin.toarray(), dense)
    assert (thin.data != 0).all()
    assert dense.dtype == thin.dtype == np.float64


def test_tables_of_every_kind_are_encoded_alike():
    expected = encoded(SCHEMA, TABLE)
    frame = pd.DataFrame(TABLE)
    for table in (frame, pl.DataFrame(TABLE), frame.astype(object).to_numpy(), frame.assign(ill=[0, 1, 0, 7])):
        assert np.array_equal(encoded(SCHEMA, table), expected)


def test_an_array_of_floats_is_read_in_the_order_of_the_schema():
    schema = Schema({"a": Number(0, 4), "code": Category([1, 2], missing="zeros"), "left": Ignore()})
    X = np.array([[0, 2, 9], [4, 1, 9], [2, np.nan, 9]], dtype=np.float32)
    assert (encoded(schema, X) * math.sqrt(3)).round(12).tolist() == [[-1, 0, 1], [1, 1, 0], [0, 0, 0]]


def test_one_row_one_column_and_no_rows():
    one = PrivatePreprocessor(Schema({"a": Number(0, 1)}))
    assert one.fit_transform({"a": [1.0]}).tolist() == [[pytest.approx(math.sqrt(0.5))]]
    assert one.row_bound_ == pytest.approx(math.sqrt(0.5))
    for thin in (False, True):
        assert encoded(SCHEMA, {name: [] for name in TABLE}, sparse_output=thin).shape == (0, 12)


def test_categories_alone_fill_the_bound():
    encoder = PrivatePreprocessor(Schema({"a": Category(["x", "y"]), "b": Category([0, 1], missing="category")}))
    rows = encoder.fit_transform({"a": ["x", "y"], "b": [1, None]})
    assert np.allclose(np.linalg.norm(rows, axis=1), encoder.row_bound_)


# What privacy rests on ---------------------------------------------------------------------------------------------

number = st.none() | st.floats(allow_infinity=False) | st.sampled_from(["", "3.5", 1e308, -1e308, True, 5])
cells = st.fixed_dictionaries(
    {
        "age": number,
        "lab": number,
        "cost": number,
        "sex": st.sampled_from(["F", "M", " M ", None, "", float("nan")]),
        "id": st.text(max_size=3),
        "ward": st.sampled_from([1, 1.0, "2", True, None, "x", 9, 2.5]),
        "seen": st.none() | st.dates() | st.datetimes() | st.sampled_from(["2020-01-01", " ", pd.NaT]),
    }
)


def columns(rows):
    return {name: [row[name] for row in rows] for name in SCHEMA.columns}


@given(st.lists(cells, min_size=1, max_size=8))
def test_every_row_is_within_the_bound_and_encoded_on_its_own(rows):
    encoder = PrivatePreprocessor(SCHEMA)
    together = encoder.fit_transform(columns(rows))
    assert (np.linalg.norm(together, axis=1) <= encoder.row_bound_ * (1 + 1e-12)).all()
    alone = np.vstack([encoder.transform(columns([row])) for row in rows])
    assert np.array_equal(together, alone)


def test_the_bound_is_reached():
    extreme = {"age": [100], "lab": [50], "cost": [1e6], "sex": ["F"], "id": [0], "ward": [1], "seen": ["2030-01-01"]}
    encoder = PrivatePreprocessor(SCHEMA)
    assert np.linalg.norm(encoder.fit_transform(extreme)) == pytest.approx(encoder.row_bound_)


def test_fit_learns_nothing():
    one, other = PrivatePreprocessor(SCHEMA).fit(TABLE), PrivatePreprocessor(SCHEMA).fit({n: [] for n in TABLE})
    assert pickle.dumps(one) == pickle.dumps(other)


def test_cells_that_do_not_fit_are_encoded_like_missing_ones():
    for name in ("age", "sex", "seen"):
        odd, missing = (PrivatePreprocessor(SCHEMA).fit_transform(TABLE | {name: [c] * 4}) for c in ("SECRET", None))
        assert np.array_equal(odd, missing)


# A scikit-learn transformer ----------------------------------------------------------------------------------------


def test_it_can_be_cloned_pickled_and_set():
    encoder = PrivatePreprocessor(SCHEMA, sparse_output=True)
    assert clone(encoder).get_params() == {"schema": SCHEMA, "sparse_output": True}
    encoder.set_params(sparse_output=False).fit(TABLE)
    again = pickle.loads(pickle.dumps(encoder))
    assert np.array_equal(again.transform(TABLE), encoder.transform(TABLE))
    assert encoder.n_features_in_ == 7
    assert encoder.feature_names_in_.tolist() == list(SCHEMA.columns)


def test_frames_come_out_where_asked_for():
    frame = pd.DataFrame(TABLE, index=[5, 6, 7, 8])
    out = PrivatePreprocessor(SCHEMA).set_output(transform="pandas").fit_transform(frame)
    assert out.columns.tolist() == NAMES
    assert out.index.tolist() == [5, 6, 7, 8]
    out = PrivatePreprocessor(SCHEMA).set_output(transform="polars").fit_transform(pl.DataFrame(TABLE))
    assert out.columns == NAMES


def test_it_works_inside_pipelines_and_column_transformers():
    frame = pd.DataFrame(TABLE)
    piped = make_pipeline(PrivatePreprocessor(SCHEMA), MaxAbsScaler()).fit(frame)
    assert piped[:-1].get_feature_names_out().tolist() == NAMES
    part = Schema({"age": Number(20, 100)})
    both = ColumnTransformer([("left", PrivatePreprocessor(part), ["age"]), ("right", "passthrough", ["cost"])])
    assert both.fit_transform(frame.fillna({"cost": 0.0})).shape == (4, 2)
    assert both.get_feature_names_out().tolist() == ["left__age", "right__cost"]


def test_misuse_is_refused():
    with pytest.raises(InputError, match="schema must be a Schema"):
        PrivatePreprocessor().fit(TABLE)
    with pytest.raises(InputError, match="schema must be a Schema"):
        PrivatePreprocessor(SCHEMA.to_dict()).fit_transform(TABLE)
    with pytest.raises(NotFittedError):
        PrivatePreprocessor(SCHEMA).transform(TABLE)
    with pytest.raises(NotFittedError):
        PrivatePreprocessor(SCHEMA).get_feature_names_out()
    with pytest.raises(InputError, match="input_features"):
        PrivatePreprocessor(SCHEMA).fit(TABLE).get_feature_names_out(["age"])
    with pytest.raises(InputError, match="lacks columns"):
        PrivatePreprocessor(SCHEMA).fit(TABLE).transform({"age": [1]})


# What it is for ----------------------------------------------------------------------------------------------------


def test_a_clinic_loses_little_to_privacy():
    data = (*patients(100, N), *patients(101, N_TEST))
    plain = plain_auc(data)
    naive, ranges, typical = (np.mean(private_auc(data, s, 1.0, seeds=5)) for s in (None, RANGES, TYPICALS))
    assert 0.78 < plain < 0.83
    assert naive < ranges < typical
    assert typical > plain - 0.02
