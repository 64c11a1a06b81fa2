"""A receipt in a few lines, and the words that plans and receipts share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dpconvex.kernel.claims import PERSON, Scope
from dpconvex.problem.facts import DECLARED, Kind
from dpconvex.problem.renyi_law import OWN_LAW
from dpconvex.rounding import round_up

if TYPE_CHECKING:
    from dpconvex.kernel.claims import Release
    from dpconvex.kernel.receipt import Receipt


def neighbour_words(relation: str, unit: int | str) -> str:
    """What may change between two data sets that the guarantee makes hard to tell apart."""
    if unit == PERSON:
        records, others = "all the rows of one person", "however many of one other who has none"
    else:
        records, others = ("one record", "any other") if unit == 1 else (f"{unit} records of one person", "any others")
    if relation == "replace_one":
        return f"{records} replaced by {others}"
    return f"the contribution of {records} masked in place"


def unit_words(unit: int | str) -> str:
    """Who is protected together."""
    if unit == PERSON:
        return "all the rows of one person"
    return "one record" if unit == 1 else f"{unit} records of one person"


def on_the_word_of_the_caller(
    unit: int | str, facts: Sequence[dict[str, Any]] = (), plan: dict[str, Any] | None = None
) -> list[str]:
    """What a guarantee takes from whoever ran it: about people, and about parts of their own.

    Facts and plan are in their plain forms.
    """
    whose = ["whose each row is"] if unit == PERSON else [f"no person has more than {unit} records"]
    return [*([] if unit == 1 else whose), *declared_words(facts, plan or {})]


def own_parts(plan: Any) -> dict[str, dict[str, Any]]:
    """The parts of a plan, in plain form, that are the user's own: a loss, a domain, options of the algorithm.

    Examples
    --------
    >>> own_parts({"problem": {"loss": {"own": "record"}, "domain": {"name": "L2Ball"}}, "algorithm": {}})
    {'loss': {'own': 'record'}}
    """
    problem, algorithm = plan.get("problem"), plan.get("algorithm")
    found = {name: problem.get(name) for name in ("loss", "domain")} if isinstance(problem, dict) else {}
    found |= algorithm if isinstance(algorithm, dict) else {}
    return {name: part for name, part in found.items() if isinstance(part, dict) and "own" in part}


def declared_words(facts: Sequence[dict[str, Any]], plan: dict[str, Any]) -> list[str]:
    """What was declared of parts of the user's own, as far as a guarantee rests on it.

    Examples
    --------
    >>> fact = {"fact": "LIPSCHITZ", "value": 2.0, "source": "declared by the user: slope of mine"}
    >>> declared_words([fact], {})
    ["largest l2 norm of the gradient of one record's loss: 2"]
    """
    found = []
    for fact in facts:
        if fact["source"].startswith(DECLARED) and fact["fact"] == Kind.RENYI_LAW.name:
            found.append(_law_words(fact["value"]))
        elif fact["source"].startswith(DECLARED):
            value = fact["value"] if isinstance(fact["value"], list | tuple) else [fact["value"]]
            found.append(f"{Kind[fact['fact']].value}: {', '.join(f'{v:.6g}' for v in value)}")
    own = own_parts(plan)
    loss, learner, noise = own.get("loss", {}), own.get("learner", {}), own.get("noise", {})
    if loss.get("own") == "record" and not loss["apart"]:
        found.append(
            f"the gradient of a record of the loss {loss['name']!r} depends on that record and the weights alone"
        )
    if learner:
        found.append(
            f"the learner {learner['name']!r} plays from what it is told alone, and reads the data nowhere else"
        )
    if noise:
        found.append(
            f"the sampler of the noise {noise['name']!r} draws from the law that was declared of it, up to "
            f"{noise['accuracy']:g} in the mean, and from the uniform numbers that it is given alone"
        )
    return found


def _law_words(value: Sequence[float]) -> str:
    """What was declared of a law of noise of the user's own."""
    kappa, norm, _, moment, _, *orders = value
    which = f"the orders a = {', '.join(f'{a:g}' for a in orders)}" if orders else "every order a"
    return (
        f"the noise moved by v has Renyi divergences of at most {kappa / 2.0:.6g} a |v|^2 from itself for {which}, and "
        f"a mean square of at most {moment:.6g}, in l_{norm:g}"
    )


# Laws of choices, which are drawn exactly and leave no number behind.
CHOICES = ("bernoulli", "order", "uniform", "gumbel", "poisson", "geometric", "logarithmic")


def arithmetic_words(releases: Sequence[Release]) -> str:
    """Which values are rounded exactly to a grid, and which are computed in float64.

    Examples
    --------
    >>> from dpconvex.kernel.claims import Release
    >>> tilt, output = Release("tilt", "gaussian", 1.0, (2,)), Release("output", "gaussian", 1.0, (2,), grid=2.0**-20)
    >>> arithmetic_words([tilt]), arithmetic_words([output]), arithmetic_words([tilt, output])
    ('float64', 'exact on a grid', 'exact on a grid, but float64 for tilt')
    """
    own = [release.name for release in releases if release.law.startswith(OWN_LAW)]
    rough = [release.name for release in releases if release.grid is None and release.law not in CHOICES]
    if own:
        return f"on a grid, from float64 variates whose error is charged for {', '.join(own)}"
    if not any(release.grid is not None for release in releases):
        return "float64" if rough else "exact choices"
    return "exact on a grid" + (f", but float64 for {', '.join(rough)}" if rough else "")


def grid_words(releases: Sequence[Release]) -> str:
    """The grid of each release, or what else is said of its arithmetic.

    Examples
    --------
    >>> from dpconvex.kernel.claims import Release
    >>> grid_words([Release(name, "gaussian", 1.0, (2,), grid=2.0**-20) for name in ("a", "b")])
    'a, b in multiples of 2^-20'
    """
    on: dict[str, list[str]] = {}
    for release in releases:
        if release.grid is not None and release.law.startswith("prefix sums"):
            on.setdefault(f"from rows in multiples of 2^{math.frexp(release.grid)[1] - 1}", []).append(release.name)
        elif release.law.startswith(OWN_LAW) and release.grid is not None:
            place = math.frexp(release.grid)[1] - 1
            on.setdefault(f"in multiples of 2^{place}, from float64 variates, charged", []).append(release.name)
        elif release.grid is not None:
            on.setdefault(f"in multiples of 2^{math.frexp(release.grid)[1] - 1}", []).append(release.name)
        elif release.law not in CHOICES:
            on.setdefault("in float64, not exact", []).append(release.name)
        else:
            on.setdefault("drawn exactly", []).append(release.name)
    return "; ".join(f"{_few(names)} {words}" for words, names in on.items())


def _few(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"])


def noise_words(names: Sequence[str]) -> str:
    """Names of what was drawn, those of several candidates together.

    Examples
    --------
    >>> noise_words(["candidate 1/phase", "candidate 1/score", "candidate 2/phase", "candidate 2/score", "repeats"])
    'phase, score of candidate 1 to candidate 2; repeats'
    >>> noise_words(["objective", "output"])
    'objective, output'
    """
    of: dict[str, list[str]] = {}
    for name in names:
        of.setdefault(name.rpartition("/")[0], []).append(name.rpartition("/")[2])
    alone, heads = of.pop("", []), list(of)
    if len(heads) < 2:
        return ", ".join(names)
    tails = dict.fromkeys(tail for own in of.values() for tail in own)
    return "; ".join([f"{', '.join(tails)} of {heads[0]} to {heads[-1]}", *([", ".join(alone)] if alone else [])])


SCOPE_WORDS = {Scope.LAST: "the last iterate", Scope.EVERY: "every noisy iterate"}


def in_words(sections: dict[str, Any]) -> str:
    """What a receipt says, for a person."""
    plan, claim, arithmetic, dataset = (sections[k] for k in ("plan", "claim", "arithmetic", "dataset"))
    words = neighbour_words(claim["relation"], dataset["unit"])
    who = {1: "one record", PERSON: "all the rows of one person"}
    unit = who.get(dataset["unit"], f"one person of up to {dataset['unit']} records")
    whole = "of the stream" if dataset["stream"] else f"among {plan['n']} of"
    head = "PRIVATE RELEASE"
    if not arithmetic["private"]:
        head = "NOT PRIVATE: the noise came from a fixed seed (tests only)"
    if read := ", ".join(sections["outside"]["read_from_data"]):
        head += f", EXCEPT FOR WHAT WAS READ FROM THE DATA: {read}"
    loops = ", ".join(arithmetic["trusted_loops"] or ())
    facts = (sections.get("facts") or {}).get("library", ())
    word = "; ".join(on_the_word_of_the_caller(dataset["unit"], facts, plan))
    codes = {name: part["code"] for name, part in own_parts(plan).items() if part.get("code")}
    return "\n".join(
        [
            head,
            f"  guarantee   ({round_up(claim['epsilon'], 4):.4g}, {claim['delta']:.3g})-differential privacy"
            + (f", {claim['profile']['mu']:.6g}-GDP" if claim["profile"]["kind"] == "GDP" else ""),
            f"  protects    {unit} {whole} {dataset['name']!r}: {words}",
            f"  released    {SCOPE_WORDS[claim['scope']]} of {plan['algorithm']['name']}, nothing else",
            f"  noise       {noise_words(arithmetic['drawn'])} ({arithmetic['source']})",
            f"  arithmetic  {arithmetic['numbers']}",
            *([f"  trusts      {loops}"] if loops else []),
            f"  rests on    {', '.join(sorted(theorems_of(claim['derivation'])))}",
            *([f"  on the word of the caller: {word}"] if word else []),
            *(f"  code of the {name}: sha256 {code[:16]}" for name, code in codes.items()),
            f"  read from the data without privacy: {read or 'nothing'}",
            f"  plan        {plan['digest'][:16]}, dpconvex {plan['library']}"
            + (f", run on {made}" if (made := sections.get("engine", {}).get("date")) else ""),
        ]
    )


def receipt_line(about: str, receipt: Receipt) -> str:
    """What a release was about, and its guarantee, in one line."""
    kind = "" if receipt.private else ", NOT PRIVATE (fixed seed)"
    plan = receipt.sections["plan"]["digest"][:16]
    return f"receipt: {about}, ({round_up(receipt.epsilon, 4):.4g}, {receipt.delta:.3g}){kind}, plan {plan}"


def align(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of a table in plain text: the first `left` columns are aligned to the left, the others to the right.

    Examples
    --------
    >>> align([("name", "value"), ("auc", "0.9")])
    ['name  value', 'auc     0.9']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return [line.rstrip() for line in lines]


def nodes(plain: Any) -> Iterator[dict[str, Any]]:
    """Every object of a derivation in plain form."""
    if isinstance(plain, dict):
        yield plain
    for part in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
        yield from nodes(part)


def theorems_of(plain: Any) -> set[str]:
    """Names of the theorems of a derivation."""
    return {node["by"] for node in nodes(plain) if "by" in node}


# In notebooks ---------------------------------------------------------------------------------------------------------


_LINE = re.compile(r"  ?(\S(?:.{0,18}?\S)?)(?:\s{2,}|: )(.*)")


def as_html(text: str) -> str:
    """The lines of a text as HTML: its title, and a row for each label and what it says.

    Examples
    --------
    >>> print(as_html(chr(10).join(["A plan", "  noise       <2>", "  cost        3 passes"])))
    <table style="text-align: left"><caption style="text-align: left">A plan</caption>
    <tr><th scope="row" style="text-align: left">noise</th><td style="text-align: left">&lt;2&gt;</td></tr>
    <tr><th scope="row" style="text-align: left">cost</th><td style="text-align: left">3 passes</td></tr>
    </table>
    """
    title, *lines = text.splitlines() or [""]
    rows = []
    for line in lines:
        found = _LINE.fullmatch(line)
        label, words = found.groups() if found else ("", line.strip())
        rows.append(
            f'<tr><th scope="row" style="text-align: left">{escape(label)}</th>'
            f'<td style="text-align: left">{escape(words)}</td></tr>'
        )
    caption = f'<caption style="text-align: left">{escape(title)}</caption>'
    return "\n".join([f'<table style="text-align: left">{caption}', *rows, "</table>"])
