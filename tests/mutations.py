"""Structural mutations of receipts and models, signed again, and what the library says of them.

`python tests/mutations.py 10000` (with tests/ on the path) prints the counts, the slowest answer and the peak memory.
"""

import copy
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpconvex as dc
from dpconvex import games
from dpconvex.algorithms.again import plan_again
from dpconvex.algorithms.registry import PLANNERS
from dpconvex.canonical import EARLIER, digest
from dpconvex.kernel.receipt import body_digest, plan_digest
from dpconvex.queries.curvature import Curvature
from dpconvex.verify import Verdict, _agree

SLOWEST, LARGEST = 2.0, 500.0  # seconds and MB, for any input
FACTORS = (0.0, -1.0, 0.5, 0.999, 1.001, 2.0, 1e3, 1e-9, 1e9, 1e150)
NUMBERS = (0, 1, -1, 2, 10**4, 10**7, 10**9, 2**53, 10**18, 10**300, 0.5, 1e-300, 1e300, 5e-324, True)
ODD = (None, True, False, "", "x", "nan", "replace_one", [], {}, [0.0], {"by": "gaussian", "from": {}})
CONTROL = ("\n", "\x1b[2J", "\u202e", "\ud800", "\x00")


class Outcome(NamedTuple):
    """What the library said of a mutant, after how many seconds of computing; `wrong` says what must not be."""

    said: str
    seconds: float
    wrong: str


def corpus() -> dict[str, dict[str, Any]]:
    """Honest receipts of every kind, and models, in plain form."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (300, 3))
    y, budget = np.where(X[:, 0] > 0, 1.0, -1.0), dc.Budget(1.0, 1e-6)
    ball, found = dc.Problem(dc.losses.Logistic(), dc.domains.L2Ball(4.0), l2=1.0), {}
    l1 = dc.Problem(dc.losses.Logistic(), dc.domains.L1Ball(4.0))
    squared = dc.Problem(dc.losses.Squared())
    of = dc.algorithms
    for algorithm, problem in (
        (of.PhasedSGD(phases=3), ball), (of.PhasedSGD(shuffle="secret"), ball), (of.PhasedERM(), ball),
        (of.NoisyGD(), ball), (of.NoisySGD(), ball), (of.SnowballSGD(), ball), (of.ObjectivePerturbation(), ball),
        (of.FrankWolfe(), l1), (of.PoissonSGD(steps=20), ball), (of.OnlineToBatch(), ball), (of.PrivateFTRL(), ball),
        (of.MirrorDescent(noise="generalised"), squared), (of.TruncatedMirrorDescent(shuffle=True), ball),
        (of.HeavyTailedSGD(), ball), (of.SufficientStatistics(), squared), (of.MeanDirection(), ball),
        (Curvature((0.0, 0.0, 0.0)), ball),
    ):  # fmt: skip
        plan = algorithm.plan(problem, n=300, d=3, budget=budget)
        found[type(algorithm).__name__ + str(len(found))] = plan.run(X, y, dataset="mutants").receipt.data
    ours = {"feature_bound": 2.0, "classes": [-1.0, 1.0]}
    model = dc.PrivateLogisticRegression(**ours, rows_per_person=2).fit(X, y)
    held = dc.evaluate(model, X, y, budget=budget, dataset="held out", metrics=["accuracy", "auc"])
    search = dc.PrivateSelection(dc.PrivateLogisticRegression(**ours), {"algorithm": ["NoisyGD", "NoisySGD"]}, 3.0)
    online = dc.PrivateOnlineClassifier(**ours).partial_fit(X, y)
    ridge = dc.PrivateRidge(feature_bound=2.0, target_range=(-1, 1)).fit(X, y)
    player = games.Pomer(dc.domains.L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="a game")
    blocked = games.BlockedGibbs(dc.domains.L2Ball(1.0), 1.0, 2000, dc.Budget(4.0, 1e-6), dimension=3, dataset="games")
    player.play()
    blocked.play()
    receipts = {
        "people": model.receipt_, "evaluation": held.receipt, "stream": online.receipt_, "Pomer": player.receipt,
        "BlockedGibbs": blocked.receipt, "selection": search.fit(X, y).receipt_,
    }  # fmt: skip
    found |= {name: receipt.data for name, receipt in receipts.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, fitted in {"model": model, "model of a stream": online, "ridge": ridge, "selected": search}.items():
            fitted.save(path := Path(folder) / "model.json")
            found[name] = json.loads(path.read_text())
    earlier = Path(__file__).parent / "format_1" / "receipt.json"
    return {**found, "format 1": json.loads(earlier.read_text())}


def places(plain: Any) -> list[tuple[Any, ...]]:
    """Every place below the root, in any depth: by a stack, because derivations may be deeper than Python recurses."""
    found, stack = [], [((), plain)]
    while stack:
        path, inner = stack.pop()
        parts = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        below = [((*path, key), part) for key, part in parts]
        found += [place for place, _ in below]
        stack += reversed(below)
    return found


def at(plain: Any, path: tuple[Any, ...]) -> Any:
    """The value at a place."""
    for key in path:
        plain = plain[key]
    return plain


def mutant(honest: dict[str, Any], others: list[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """A copy with one to three mutations, signed again."""
    data = copy.deepcopy(honest)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        known = [place for place in places(data) if place[-1] != "digest"]
        public = [place for place in known if "plan" in place[:2]]  # what is planned again from
        path = rng.choice(public if public and rng.random() < 0.5 else known)
        inner, key = at(data, path[:-1]), path[-1]
        other = rng.choice(others)
        if _mutate(inner, key, at(data, rng.choice(known)), at(other, rng.choice(places(other))), rng):
            break
    return signed(data)


def _mutate(inner: Any, key: Any, within: Any, elsewhere: Any, rng: random.Random) -> bool:
    """Change the value at a key; return whether what came of it is too large to mutate further."""
    value, kind = inner[key], rng.randrange(10)
    if kind == 0:
        del inner[key]
    elif kind == 1:
        twin = copy.deepcopy(value)
        if isinstance(inner, list):
            inner.insert(key, twin)
        else:
            inner[f"{key}2"] = twin
    elif kind == 2:
        inner[key] = {**value, "x": 1} if isinstance(value, dict) else rng.choice(ODD)
    elif kind == 3 and type(value) in (int, float):
        inner[key] = type(value)(min(value * rng.choice(FACTORS), 1e300))
    elif kind == 4:
        inner[key] = copy.deepcopy(within)
    elif kind == 5:
        inner[key] = copy.deepcopy(elsewhere)
    elif kind == 6:
        for _ in range(rng.choice((5, 50, 600))):
            value = [value] if rng.random() < 0.5 else {"from": value}
        inner[key] = value
    elif kind == 7:
        inner[key] = rng.choice((float("nan"), float("inf"), *("x" * k for k in (10**3, 10**6)), [0.5] * 10**5))
    elif kind == 8:
        inner[key] = f"{value}{rng.choice(CONTROL)}"
    else:
        inner[key] = rng.choice(NUMBERS)
    return kind in (6, 7)


def signed(data: dict[str, Any]) -> dict[str, Any]:
    """The receipt or model with fresh digests, as far as they can be computed."""
    try:
        if "receipt" in data:
            signed(data["receipt"])
            data["digest"] = digest({key: value for key, value in data.items() if key != "digest"})
        elif data.get("format") != EARLIER:
            data["plan"]["digest"] = plan_digest(data)
            data["digest"] = body_digest(data)
    except Exception:  # what has no canonical form keeps its old digests
        pass
    return data


def judged(data: dict[str, Any], honest: dict[str, Any], folder: Path) -> Outcome:
    """What the library says of a mutant, read from its text."""
    start, text = time.process_time(), json.dumps(data)
    try:
        start = time.process_time()
        if "receipt" in honest:
            (folder / "mutant.json").write_text(text)
            dc.load(folder / "mutant.json")
            receipt = dc.Receipt(data["receipt"])
        else:
            receipt = dc.Receipt.from_json(text)
        verdict = dc.verify(receipt)
        seconds = time.process_time() - start
    except dc.errors.DpconvexError:
        return Outcome("refused", time.process_time() - start, "")
    except Exception as error:
        return Outcome("error", time.process_time() - start, f"untyped {type(error).__name__}: {error}"[:200])
    try:
        wrong = _wrong(verdict, receipt.data, honest.get("receipt", honest)) if str(receipt) else "says nothing"
    except Exception as error:
        wrong = f"accepted, but cannot be read: {type(error).__name__}"
    return Outcome(verdict.name.lower(), seconds, wrong)


def _named(plain: Any) -> list[Any]:
    """Names of a plan's algorithm and of those among its options; nothing is planned again with one that is unknown."""
    return [at(plain, path) for path in places(plain) if path[-1] == "name"]


def _wrong(verdict: Verdict, data: dict[str, Any], honest: dict[str, Any]) -> str:
    """What is wrong with the acceptance of a receipt, if anything."""
    if verdict is Verdict.CONSISTENT:
        if data["format"] == EARLIER:
            return ""
        here, before = (
            sum(name in (*PLANNERS, *dc.algorithms.names()) for name in _named(of["plan"]["algorithm"]))
            for of in (data, honest)
        )
        other = here < before or any(
            a != b
            for a, b in (
                (data["plan"]["library"], honest["plan"]["library"]),
                *((data["engine"].get(k), honest["engine"][k]) for k in ("numpy", "scipy")),
            )
        )
        return "" if other else "taken for consistent although this version can plan it"
    facts = ("algorithm", "problem", "n", "d", "budget", "one_record", "people", "stream")
    if all(data["plan"][fact] == honest["plan"][fact] for fact in facts):
        return "" if _agree(data["claim"], honest["claim"], 1e-5) else "accepted with another claim than its plan's"
    claim = plan_again(data["plan"]).claim  # type: ignore[arg-type]
    return "" if _agree(data["claim"]["profile"], claim.profile.to_json(), 1e-5) else "accepted with another claim"


def attack(count: int, seed: int = 0, kept: dict[str, dict[str, Any]] | None = None) -> list[tuple[str, Outcome]]:
    """Judge so many mutants, of all kinds of receipts and models in turn."""
    rng, honest = random.Random(seed), kept or corpus()
    found, others = [], list(honest.values())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(count):
            name = list(honest)[i % len(honest)]
            found.append((name, judged(mutant(honest[name], others, rng), honest[name], Path(folder))))
    return found


def main(count: int) -> int:
    """Attack in this process, with as much more memory as an input may take; print what was found.

    The peak is that of the process, less what it held before the first mutant.
    """
    warnings.simplefilter("ignore")
    honest = corpus()
    attack(len(honest), 1, honest)  # imports and caches
    size, held = (int(pages) * resource.getpagesize() for pages in Path("/proc/self/statm").read_text().split()[:2])
    resource.setrlimit(resource.RLIMIT_AS, (size + int(LARGEST * 1e6), size + int(LARGEST * 1e6)))
    found = attack(count, 0, honest)
    slowest = max(found, key=lambda pair: pair[1].seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 - held / 1e6
    wrong = [(name, outcome) for name, outcome in found if outcome.wrong]
    print(f"{count} mutants of {len(honest)} receipts and models: {dict(Counter(o.said for _, o in found))}")
    print(f"slowest {slowest[1].seconds:.2f} s ({slowest[0]}, {slowest[1].said})")
    print(f"peak memory {peak:.0f} MB above the {held / 1e6:.0f} MB before the first mutant")
    print(f"wrong: {len(wrong)}")
    for name, outcome in wrong[:20]:
        print(f"  {name}: {outcome.wrong}")
    return int(bool(wrong) or slowest[1].seconds > SLOWEST or peak > LARGEST)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
