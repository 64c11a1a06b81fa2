"""Plots show the numbers of the results they are of, and notebooks show what `print` does."""

import sys

import matplotlib
import numpy as np
import pytest

import dpconvex as dc
from dpconvex.errors import InputError, UnavailableError

matplotlib.use("agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def clinic():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(2000, 3))
    y = np.where(X[:, 0] + 0.3 * rng.logistic(size=2000) > 0.0, 1, 0)
    return X, y


@pytest.fixture(scope="module")
def model(clinic):
    X, y = clinic
    return dc.PrivateLogisticRegression(4.0, feature_bound=dc.bounds.Linf(1.0), classes=[0, 1]).fit(X[:1000], y[:1000])


def test_tradeoff():
    found = dc.tradeoff(n=20_000, d=20, delta=1e-6)
    ax = found.plot()
    assert np.allclose(ax.lines[0].get_xydata(), [(e.epsilon, e.prediction.excess) for e in found.by_epsilon])
    other = pyplot.subplots()[1]
    assert found.plot(other, against="records") is other
    assert np.allclose(other.lines[0].get_xdata(), [e.n for e in found.by_n])
    with pytest.raises(InputError, match="against must be"):
        found.plot(against="time")
    assert found._repr_html_().startswith("<svg")


def test_coefficients(model):
    found = model.summary()
    ax = found.plot()
    drawn = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert np.allclose(drawn, found.coef[:-1])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.names[:-1])


def test_calibration(model, clinic):
    X, y = clinic
    found = dc.evaluate(
        model, X[1000:], y[1000:], budget=dc.Budget(4.0, 1e-6), dataset="others", metrics=["calibration"]
    )
    ax = found.plot()
    middles, shares = ax.containers[0].lines[0].get_data()
    assert np.allclose(middles, [(b.low + b.high) / 2.0 for b in found.calibration])
    assert np.allclose(shares - middles, [b.gap.value for b in found.calibration])
    plain = dc.evaluate(model, X[1000:], y[1000:], budget=dc.Budget(4.0, 1e-6), dataset="more", metrics=["accuracy"])
    with pytest.raises(InputError, match="no calibration was requested"):
        plain.plot()


def test_ledger(tmp_path, clinic):
    X, y = clinic
    ledger = dc.Ledger.open(tmp_path / "budget.db")
    ledger.declare("clinic", budget=dc.Budget(3.0, 1e-6))
    with pytest.raises(InputError, match="nothing was run"):
        ledger.plot("clinic")
    for epsilon in (0.5, 1.0):
        with dc.context(ledger=ledger, dataset="clinic"):
            dc.PrivateLogisticRegression(epsilon, feature_bound=dc.bounds.Linf(1.0), classes=[0, 1]).fit(X, y)
    heights = ledger.plot("clinic").lines[1].get_ydata()
    assert 0.5 <= heights[0] < heights[1] < 3.0
    assert heights[1] == pytest.approx(ledger.spent("clinic"))


def test_audit():
    found = dc.audit.gallery(["lemma-4.6"], runs=20_000)["lemma-4.6"].report
    ax = found.plot()
    assert np.allclose(ax.lines[0].get_ydata(), [claimed for _, claimed, _ in found.curve])
    assert "refuted" in found._repr_html_()


def test_regret():
    player = dc.games.learners.SubgradientDescent(dc.domains.Box(-1.0, 1.0)).player(d=1)
    game = dc.games.run_game(player, np.array([[1.0], [-1.0], [1.0]]))
    assert game.plot().lines[1].get_ydata()[-1] == pytest.approx(game.regret)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnavailableError, match=r"dpconvex\[plot\]"):
        dc.tradeoff(n=20_000, d=20, delta=1e-6).plot()


def test_notebooks_show_every_line(model):
    schema = dc.Schema({"a <b>": dc.schema.Number(0, 1)}, target=dc.schema.Classes("ill", [0, 1]))
    plan = dc.algorithms.PhasedSGD().plan(
        dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0)), n=100, d=2, budget=dc.Budget(1.0, 1e-6)
    )
    for shown in (plan, model.receipt_, dc.recommend(n=500, d=3, budget=dc.Budget(1.0, 1e-6))):
        page = shown._repr_html_()
        assert page.count("<tr>") == len(str(shown).splitlines()) - 1
    assert "(1, 1e-06)-DP for one record replaced by any other" in plan._repr_html_()
    assert "a &lt;b&gt;" in schema._repr_html_()
    assert "a <b>" not in schema._repr_html_()
