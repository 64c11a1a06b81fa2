import dataclasses
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import dpconvex as dc
from dpconvex.drawing import curves, scatter
from dpconvex.errors import HypothesisError, InputError
from dpconvex.theorems.lower_bounds import least_excess

LOGISTIC = dc.Problem(dc.losses.Logistic())
FACTS = {"n": 5000, "d": 10, "delta": 1e-9}


@pytest.fixture(scope="module")
def found():
    return dc.tradeoff(LOGISTIC, **FACTS, epsilons=(0.5, 1.0, 4.0), ns=(1000, 10_000, 100_000))


def test_it_says_what_recommend_says(found):
    for e in (*found.by_epsilon, *found.by_n):
        budget = dc.Budget(e.epsilon, 1e-9)
        row = dc.recommend(LOGISTIC, n=e.n, d=10, budget=budget).rows[0]
        assert (row.name, row.expected) == (e.algorithm, e.prediction)


def test_the_points_are_those_asked_for(found):
    assert [(e.n, e.epsilon) for e in found.by_epsilon] == [(5000, 0.5), (5000, 1.0), (5000, 4.0)]
    assert [(e.n, e.epsilon) for e in found.by_n] == [(1000, 1.0), (10_000, 1.0), (100_000, 1.0)]
    for part in (found.by_epsilon, found.by_n):
        lost = [e.prediction.excess for e in part]
        assert lost == sorted(lost, reverse=True)


def test_by_default_there_are_budgets_and_numbers_around_what_was_given():
    plain = dc.tradeoff(LOGISTIC, **FACTS, relation="zero_out", epsilon=2.0)
    assert [e.n for e in plain.by_n] == [500, 1500, 5000, 15_000, 50_000, 500_000]
    assert {e.epsilon for e in plain.by_n} == {2.0}
    assert plain.by_epsilon[0].epsilon == 0.1
    assert plain.budget == dc.Budget(2.0, 1e-9, "zero_out")


def test_how_many_people(found):
    least = found.people_for(excess=0.005)
    assert dc.recommend(LOGISTIC, n=least, d=10, budget=found.budget).rows[0].expected.excess <= 0.005
    assert dc.recommend(LOGISTIC, n=least - 1, d=10, budget=found.budget).rows[0].expected.excess > 0.005
    assert found.people_for(excess=0.005, epsilon=4.0) < least < found.people_for(excess=0.005, sure=True)
    assert found.people_for(excess=100.0) == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "0.1", None, True])
def test_a_target_has_to_be_positive(found, bad):
    with pytest.raises(InputError, match="excess must be a positive, finite number"):
        found.people_for(excess=bad)


def test_a_target_out_of_reach_is_called_so(found):
    with pytest.raises(HypothesisError, match="out of reach"):
        found.people_for(excess=1e-30)
    with pytest.raises(InputError, match="epsilon"):
        found.people_for(excess=0.1, epsilon=-1.0)
    with pytest.raises(InputError, match="sure must be"):
        found.people_for(excess=0.1, sure="yes")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilons": ()}, "epsilons must be a sequence"),
        ({"epsilons": 1.0}, "epsilons must be a sequence"),
        ({"epsilons": "12"}, "epsilons must be a sequence"),
        ({"epsilons": (1.0, 1.0)}, "epsilons must ascend"),
        ({"epsilons": (2.0, 1.0)}, "epsilons must ascend"),
        ({"epsilons": (1.0, float("nan"))}, "epsilons must hold finite numbers"),
        ({"epsilons": (-1.0, 1.0)}, "epsilon must lie"),
        ({"epsilons": ("a", "b")}, "epsilons must hold finite numbers"),
        ({"ns": []}, "ns must be a sequence"),
        ({"ns": (100, 50)}, "ns must ascend"),
        ({"ns": (1, 50)}, "whole number"),
        ({"ns": (10.5, 50)}, "whole number"),
        ({"n": 1}, "whole number"),
        ({"d": 0}, "whole number"),
        ({"delta": 1.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"relation": "add_remove"}, "add_remove"),
    ],
)
def test_bad_arguments_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        dc.tradeoff(LOGISTIC, **{**FACTS, **given})


def test_what_cannot_be_predicted_is_refused():
    ball = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(1.0), dc.bounds.Linf(1.0))
    with pytest.raises(HypothesisError, match="nothing is predicted of Logistic on L1Ball"):
        dc.tradeoff(ball, **FACTS)
    with pytest.raises(InputError, match="problem must be"):
        dc.tradeoff("logistic", **FACTS)
    with pytest.raises(HypothesisError, match="delta = 0 asks for pure privacy"):
        dc.tradeoff(LOGISTIC, **{**FACTS, "delta": 0.0})


def test_arrays_are_sequences():
    plain = dc.tradeoff(LOGISTIC, **FACTS, epsilons=np.array([1.0, 2.0]), ns=np.array([100, 200]))
    json.dumps(plain.to_dict(), allow_nan=False)
    assert [e.n for e in plain.by_n] == [100, 200]


def test_it_is_drawn_and_written(found, tmp_path):
    found.save(tmp_path / "x.svg")
    picture = ElementTree.parse(tmp_path / "x.svg")
    circles = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 6
    _, _, width, height = map(float, picture.getroot().attrib["viewBox"].split())
    assert all(0 < float(c.attrib["cx"]) < width and 0 < float(c.attrib["cy"]) < height for c in circles)
    found.save(str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    for part in ("<svg", "<h1>What privacy will cost</h1>", "5000 records, 10 features", "shaded band", "In numbers"):
        assert part in page
    for axis in ("epsilon, with 5000 records", "records, at epsilon 1", "excess loss per record"):
        assert page.count(axis) >= 1
    for line in str(found).splitlines()[1:]:
        assert line.strip() in page
    with pytest.raises(InputError, match=r"\.svg or \.html"):
        found.save(tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_what_no_algorithm_can_promise_is_drawn_beside_it_where_it_is_known(found):
    ball = dataclasses.replace(LOGISTIC, domain=dc.domains.L2Ball(8.0))
    bounded = dc.tradeoff(ball, **FACTS, epsilons=(0.1, 0.5, 8.0), ns=(1000, 10_000))
    for e in (*bounded.by_epsilon, *bounded.by_n):
        budget = dc.Budget(e.epsilon, FACTS["delta"])
        assert e.least == least_excess(ball, n=e.n, d=FACTS["d"], budget=budget).private
    (dashed,) = re.findall(r'<polyline points="([^"]*)"[^>]*dasharray', bounded.to_svg())[:1]
    assert len(dashed.split()) == 2  # at epsilon 8 it is out of sight
    assert f"less than {bounded.by_epsilon[0].least:.2g} at epsilon 0.1" in str(bounded)
    assert "dasharray" not in found.to_svg()  # on all of space there is no such bound without l2
    assert "promise" not in str(found)
    assert found.by_n[0].least is None


def test_one_point_can_be_drawn():
    one = dc.tradeoff(LOGISTIC, **FACTS, epsilons=(1.0,), ns=(5000,))
    ElementTree.fromstring(one.to_svg())


def test_pictures_keep_words_apart_from_marks():
    svg = scatter([(0.1, 0.2)], 2.0, "<a>", "b & c")
    ElementTree.fromstring(svg)
    assert "<a>" not in svg
    ElementTree.fromstring(curves([("x", (1.0, 2.0), ((1, 2, 3), (1, 2, 3)))], "<y>"))


def test_the_words_hold_every_number(found):
    words = str(found)
    for e in (*found.by_epsilon, *found.by_n):
        assert f"{e.prediction.excess:.2g}" in words
        assert f"{e.prediction.high:.2g}" in words
        for score in e.scores:
            assert f"{score.expected:.2f}" in words


def test_scores_rise_with_the_budget_and_hopeless_points_are_marked(found):
    for part in (found.by_epsilon, found.by_n):
        for k in range(2):
            told = [e.scores[k].expected for e in part]
            assert told == sorted(told)
    assert "hopeless" not in str(found)
    few = dc.tradeoff(LOGISTIC, **{**FACTS, "n": 20}, epsilons=(0.1, 8.0), ns=(10, 10**6))
    assert [e.hopeless for e in (*few.by_epsilon, *few.by_n)] == [True, False, True, False]
    assert str(few).count(", hopeless\n") == 2
    assert "three of four such fits" in str(few)
