"""Algorithms describe themselves: the registry is the only table of their names, and what they declare is true."""

import ast
import math
import re
import sys
import types
import typing
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import dpconvex as dc
from dpconvex.algorithms import registry
from dpconvex.algorithms.base import Algorithm, Needs
from dpconvex.errors import DpconvexError, HypothesisError, InputError
from dpconvex.problem import domains, losses

SOURCE = Path(dc.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
NAMES = tuple(registry.REGISTRY)
LOSSES = {
    kind.__name__: kind(3) if kind is losses.Softmax else kind()
    for kind in typing.get_args(losses.Loss)
    if issubclass(kind, tuple)
}
DOMAINS = [
    domains.Everywhere(),
    domains.L2Ball(1.0),
    domains.Box(),
    domains.L1Ball(1.0),
    domains.LpBall(4.0),
    domains.LpBall(1.5),
    domains.Simplex(),
]
BUDGET = dc.Budget(1.0, 1e-6)
MOST_TESTS_OF_CLASS = 10


def modules():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != Path(registry.__file__)]


def names_in(node):
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in NAMES]


def parts_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown = {id(n) for e in ast.walk(tree) if isinstance(e, ast.Assign) for t in e.targets
             if isinstance(t, ast.Name) and t.id == "__all__" for n in ast.walk(e.value)}  # fmt: skip
    return [node for node in ast.walk(tree) if id(node) not in shown]


def test_no_module_but_the_registry_holds_a_table_of_algorithms_or_compares_a_name():
    for path in modules():
        if path.parent.name == "games" or path.stem == "online_to_batch":  # learners share names with algorithms
            continue
        for node in parts_of(path):
            where = f"{path.relative_to(SOURCE)}, line {getattr(node, 'lineno', '?')}"
            if isinstance(node, ast.Dict):
                assert not [n for key in node.keys if key for n in names_in(key)], f"a table of algorithms in {where}"
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                named = [e.value for e in node.elts if isinstance(e, ast.Constant) and e.value in NAMES]
                assert len(named) < 2, f"a list of algorithms in {where}: {named}"
            if isinstance(node, ast.Compare):
                assert not names_in(node), f"an algorithm is known by name in {where}: {names_in(node)}"


def test_few_modules_outside_problem_test_the_class_of_a_loss_or_a_domain():
    kinds = {*LOSSES, *(type(domain).__name__ for domain in DOMAINS), "Kinked", "Scalar"}
    found = []
    for path in modules():
        if path.parent.name == "problem":
            continue
        for node in parts_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                tested = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                tested |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
                found += [f"{path.relative_to(SOURCE)}:{node.lineno}"] * bool(tested & kinds)
    assert len(found) < MOST_TESTS_OF_CLASS, found


def test_names_come_in_order_of_preference_and_lead_to_classes():
    assert dc.algorithms.names()[: len(NAMES)] == NAMES
    for name in NAMES:
        kind = dc.algorithms.get(name)
        assert issubclass(kind, Algorithm)
        assert kind is getattr(dc.algorithms, name)
        assert kind.__name__ == name
        assert kind.suits
        assert kind.reads
    with pytest.raises(InputError, match="there is no algorithm 'Newton'"):
        dc.algorithms.get("Newton")
    with pytest.raises(AttributeError, match="Newton"):
        dc.algorithms.Newton  # noqa: B018


def plan_or_error(algorithm, problem):
    try:
        return algorithm.plan(problem, n=3000, d=3, budget=BUDGET)
    except DpconvexError as error:
        return error


@pytest.mark.parametrize("name", NAMES)
def test_needs_are_what_plans_refuse(name):
    algorithm = dc.algorithms.get(name)()
    for loss in LOSSES.values():
        for domain in DOMAINS:
            problem = dc.Problem(loss, domain)
            complaint, made = algorithm.needs.complaint(problem), plan_or_error(algorithm, problem)
            if complaint is not None:
                assert isinstance(made, HypothesisError)
                assert str(made).startswith(f"{name} {complaint}")
                others = re.search("; for this problem use (.*)$", str(made))
                for other in re.split(", | or ", others[1]) if others else ():
                    assert dc.algorithms.get(other)().needs.complaint(problem) is None
            elif isinstance(made, DpconvexError):  # a matter of bounds, not of kinds
                assert re.search("unbounded slope|no curvature|no minimiser", str(made)), (loss, domain, str(made))


def test_passes_are_as_declared():
    for name in NAMES:
        kind = dc.algorithms.get(name)
        problem = next(
            dc.Problem(loss, domain) for loss in LOSSES.values() for domain in DOMAINS
            if kind().needs.complaint(dc.Problem(loss, domain)) is None
        )  # fmt: skip
        plan = kind().plan(problem, n=10_000, d=10, budget=BUDGET)
        solves = any(line.startswith("passes") for line in kind().describe(plan))
        assert solves == (kind.reads == "a solve")
        if not solves:
            low, _, high = kind.reads.replace(" or more", " to inf").partition(" to ")
            assert float(low) <= round(plan.gradient_evaluations / plan.n, 6) <= float(high or low)


def test_an_option_may_change_the_needs():
    problem = dc.Problem(dc.losses.Hinge(), dc.domains.L2Ball(1.0))
    assert "kink" in dc.algorithms.NoisySGD().needs.complaint(problem)
    assert dc.algorithms.NoisySGD(release="every iterate").needs.complaint(problem) is None


def test_the_tables_of_the_documentation_are_current():
    spec = spec_from_file_location("tables", DOCS / "tables.py")
    tables = module_from_spec(spec)
    spec.loader.exec_module(tables)
    for name in tables.TABLES:
        text = (DOCS / name).read_text(encoding="utf-8")
        assert tables.PLACE.search(text)
        assert tables.written(text) == text, f"docs/{name}: run python docs/tables.py"
    report = (DOCS / "guide" / "noise-you-can-report.md").read_text(encoding="utf-8")
    table = report[report.index("| fitted by |") : report.index("| any other algorithm; softmax | no report")]
    reported = {name for name in NAMES if dc.algorithms.get(name).noise_law is not Algorithm.noise_law}
    assert set(NAMES) & set(re.findall(r"\w+", table)) == reported


@dataclass(frozen=True)
class Zeros(Algorithm):
    """Weights of zero, with noise on nothing that matters: a toy."""

    needs = Needs(relations=("zero_out",))
    suits = "those who want nothing"
    reads = "0"
    excess: typing.ClassVar = {"margin": (-20.0, 1.0)}

    def plan(self, problem, *, n, d, budget):
        """Plan as MeanDirection does."""
        n, d = self.accept(problem, n, d, budget)
        return dc.algorithms.MeanDirection().plan(problem, n=n, d=d, budget=budget)

    execute = finish = describe = None


@pytest.fixture
def outside(monkeypatch):
    """Entry points of other packages."""
    points = [EntryPoint("Zeros", "toys:Zeros", registry.GROUP)]
    monkeypatch.setitem(sys.modules, "toys", types.SimpleNamespace(Zeros=Zeros, Other=Needs))
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    registry.elsewhere.cache_clear()
    yield points
    registry.elsewhere.cache_clear()


def test_algorithms_of_other_packages_are_seen(outside):
    assert dc.algorithms.names() == (*NAMES, "Zeros")
    assert dc.algorithms.Zeros is Zeros
    assert "Zeros" in dir(dc.algorithms)
    budget = dc.Budget(1.0, 1e-6, "zero_out")
    found = dc.recommend(dc.Problem(dc.losses.Logistic()), n=1000, d=3, budget=budget)
    assert found.rows[1].name == "Zeros"  # after the one that leads: its own line promises much
    assert found.rows[1].expected.excess == min(row.expected.excess for row in found.rows if row.expected)
    refused = dict(dc.recommend(dc.Problem(dc.losses.Logistic()), n=1000, d=3, budget=BUDGET).refused)
    assert refused["Zeros"].startswith("Zeros has no theorem for the relation replace_one")


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([("NoisyGD", "toys:Zeros")], "two algorithms are called NoisyGD"),
        ([("Zeros", "toys:Zeros"), ("Zeros", "toys:Other")], "two algorithms are called Zeros"),
        ([("Other", "toys:Other")], "must lead to a class of that name"),
        ([("Nought", "toys:Zeros")], "must lead to a class of that name"),
    ],
)
def test_entry_points_that_clash_or_lead_elsewhere_are_refused(outside, points, words):
    outside[:] = [EntryPoint(name, value, registry.GROUP) for name, value in points]
    registry.elsewhere.cache_clear()
    with pytest.raises(InputError, match=words):
        [dc.algorithms.get(name) for name in dc.algorithms.names()]


def test_a_line_of_its_own_is_the_prediction_where_none_was_measured(outside):
    problem, budget = dc.Problem(dc.losses.Logistic()), dc.Budget(1.0, 1e-6)
    from dpconvex.chooser.forms import noise_level
    from dpconvex.chooser.prediction import predict

    level = noise_level(problem, 1000, 3, budget)
    assert predict("Zeros", problem, 1000, 3, budget).excess == pytest.approx(math.exp(-20.0) * level)
    assert predict("Zeros", dc.Problem(dc.losses.Squared()), 1000, 3, budget) is None
