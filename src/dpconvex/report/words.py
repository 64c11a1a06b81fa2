"""A receipt in words, for readers without mathematics. The receipt is proved again first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from textwrap import fill
from typing import Any

from dpconvex.algorithms.again import planner
from dpconvex.algorithms.registry import UnknownError
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.receipt import Receipt
from dpconvex.report.observer import Observer, belief
from dpconvex.rounding import round_up
from dpconvex.verify import Verdict, examine
from dpconvex.words import align, declared_words, noise_words

_PRIORS = (0.01, 0.1, 0.5)
_FALSE_ALARMS = 0.05
_WEAK = 0.9  # a promise is called weak if an observer may guess a fair coin with a larger chance
_WIDTH = 100

# By relation, and whether the promise is about several records of a person.
_COMPARED = {
    ("replace_one", False): "The run is compared with one on the same data in which that record is replaced by "
    "any other.",
    ("replace_one", True): "The run is compared with one on the same data in which all records of that person "
    "are replaced by any others.",
    ("zero_out", False): "The run is compared with one in which that record takes no part: its place stays, and its "
    "contribution is masked.",
    ("zero_out", True): "The run is compared with one in which all records of that person take no part: their places "
    "stay, and their contributions are masked.",
}
_QUESTION = {
    ("replace_one", False): "Take any yes/no question about what a record says, or about whether it is this person's "
    "record or another's, and an observer who knows all other records.",
    ("replace_one", True): "Take any yes/no question about what the records of a person say, or about whether they "
    "are this person's records or others', and an observer who knows all other records.",
    ("zero_out", False): "Take the question whether a record took part or was masked, and an observer who knows that "
    "record and all others. The numbers are not about what the record says: two versions of it are two such steps "
    "apart.",
    ("zero_out", True): "Take the question whether the records of a person took part or were masked, and an observer "
    "who knows those records and all others. The numbers are not about what the records say: two versions of them are "
    "two such steps apart.",
}


@dataclass(frozen=True)
class Table:
    """A table with a header; the first cell of each row names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.caption}:", *(f"  {line}" for line in align((self.header, *self.rows), left=0))])


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, bullet points and an optional table."""

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    table: Table | None = None

    def __str__(self) -> str:
        parts = [self.title.upper(), *(fill(text, _WIDTH) for text in self.paragraphs)]
        parts += [fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ") for text in self.points]
        return "\n".join([*parts, *([str(self.table)] if self.table else [])])


@dataclass(frozen=True)
class Statement:
    """The promise of a release in words; `print` shows plain text."""

    status: str
    good: bool
    summary: str
    sections: tuple[Section, ...]
    shift: float

    def __str__(self) -> str:
        return "\n\n".join([self.status, fill(self.summary, _WIDTH), *map(str, self.sections)])


def explain(receipt: Receipt) -> Statement:
    """State in words what a receipt promises, after proving it again.

    Returns
    -------
    Statement

    Raises
    ------
    VerificationError
        If the receipt does not hold.

    Examples
    --------
    >>> import dpconvex as dc, numpy as np
    >>> problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(4.0))
    >>> plan = dc.algorithms.PhasedSGD().plan(problem, n=100, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> solution = plan.run(np.eye(2)[[0, 1] * 50], np.array([1, -1] * 50), dataset="explained")
    >>> statement = explain(solution.receipt)
    >>> print(statement.status)
    PRIVATE RELEASE
    >>> print(statement.sections[2].table)
    How far a belief can move:
      believed before  afterwards at least  afterwards at most
                   1%                 0.3%                3.2%
                  10%                 3.3%               26.6%
                  50%                23.5%               76.5%
    """
    verdict, claim = examine(receipt)
    about = _about(receipt)
    data, guarantee = receipt.sections, receipt.sections["claim"]
    observer = Observer(claim.profile, guarantee["delta"])
    shift = observer.shift(2.0 * guarantee["delta"])
    read = ", ".join(data["outside"]["read_from_data"])
    status = "PRIVATE RELEASE" if receipt.private else "NOT PRIVATE: this release protects nobody"
    weak = observer.coin > _WEAK or (about.n is not None and guarantee["delta"] * about.n >= _rows(data))
    if receipt.private and weak:
        status = "WEAK PROMISE: this budget allows an observer to be nearly certain"
    status += f", EXCEPT FOR WHAT WAS READ FROM THE DATA: {read}" if read else ""
    sections = (
        _who(about, data),
        _against_whom(about),
        _learned(observer, shift, data),
        _numbers(observer, shift, about, data),
        _published(about, data),
        _read(data["outside"]["read_from_data"]),
        _not_promised(about, data),
        _rests_on(data),
        _again(verdict, data),
    )
    summary = _said(_summary(receipt, about), about)
    spoken = tuple(_section_said(section, about) for section in sections)
    return Statement(status, receipt.private and not read and not weak, summary, spoken, shift)


@dataclass(frozen=True)
class _About:
    """What a receipt is about: which records, and what was released of them."""

    n: int | None  # the number of records, at most; None for a stream, whose receipts do not state it
    records: str
    released: str
    record: str  # what a record is called
    enables: str  # what may be computed from what was released
    keeps_on: bool  # whether there are further rounds, whose noise is kept

    @property
    def each(self) -> str:
        """Each of the records, however many there will be."""
        return "every record" if self.keeps_on else f"each of the {self.records}"


def _about(receipt: Receipt) -> _About:
    data = receipt.sections
    plan = data["plan"]
    try:
        kind = planner(plan["algorithm"]["name"])
        released, record, enables = kind.released, kind.record, getattr(kind, "enables", "predictions for others")
    except UnknownError:
        released, record, enables = "the result", "record", "predictions for others"
    size = math.prod(receipt.problem.weight_shape(plan["d"]))
    released = released.format(size=f"{size:,}")
    if data["dataset"]["stream"] is None:
        return _About(plan["n"], f"{plan['n']:,} records", released, record, enables, keeps_on=False)
    if plan.get("stream") is None:  # a game of so many rounds at most
        return _About(plan["n"], f"up to {plan['n']:,} records", released, record, enables, keeps_on=True)
    released = f"{released} after every portion of the records"
    return _About(None, "records of a stream", released, record, enables, keeps_on=True)


def _rows(data: dict[str, Any]) -> int:
    """Records per person that the promise is about, at least."""
    unit = data["dataset"]["unit"]
    return 1 if unit == PERSON else int(unit)


def _said(text: str, about: _About) -> str:
    """A text that calls records what they are."""
    if about.record == "record":
        return text
    plural = f"{about.record}es" if about.record.endswith("s") else f"{about.record}s"
    return text.replace("records", plural).replace("record", about.record)


def _section_said(section: Section, about: _About) -> Section:
    paragraphs, points = (tuple(_said(text, about) for text in texts) for texts in (section.paragraphs, section.points))
    return replace(section, title=_said(section.title, about), paragraphs=paragraphs, points=points)


def _summary(receipt: Receipt, about: _About) -> str:
    data, g = receipt.sections, receipt.sections["claim"]
    whom = "record" if data["dataset"]["unit"] == 1 else "person"
    plan = data["plan"]
    made = data.get("engine", {}).get("date")
    day = f", on {made} (UTC)" if made else ""
    words = (
        f"From {about.records}, {plan['algorithm']['name']} of dpconvex {plan['library']} computed {about.released}, "
        f"with random noise of a size fixed beforehand{day}. The noise bounds what all that was released can say about "
        f"any one {whom}: ({_up(g['epsilon'], 4)}, {g['delta']:g})-differential privacy."
    )
    if receipt.private:
        return words
    return words + (
        " But the noise of this run came from a fixed seed, and whoever knows or guesses the seed can remove it. "
        "The statements below hold for the same run with fresh noise. This run promises nothing: it is a test."
    )


def _who(about: _About, data: dict[str, Any]) -> Section:
    unit, relation = data["dataset"]["unit"], data["claim"]["relation"]
    if unit == 1:
        who = (
            f"{about.each[0].upper()}{about.each[1:]}, whatever it says: the promise is the same for the most unusual "
            "one. It is about one record. A person with several records is protected less than this page says."
        )
    elif unit == PERSON:
        who = (
            f"Each person whose rows are among the {about.records}, all of them together, however many and whatever "
            "they say. The run was given the group id of each record: a person with two ids is protected less than "
            "this page says."
        )
    else:
        who = (
            f"Each person with up to {unit} of the {about.records}, all of them together, whatever they say. A "
            "person with more records than that is protected less than this page says."
        )
    return Section("Who is protected", (who, _COMPARED[relation, unit != 1]))


def _against_whom(about: _About) -> Section:
    kept = "the library does not keep it."
    if about.keeps_on:
        kept = (
            "as long as this goes on, the memory of the process, and an encrypted checkpoint if there is one, hold the "
            "noise of what is to come: keep the key apart from what is published."
        )
    return Section(
        "Against whom",
        (
            "Against everybody who sees what was published, with any computing power and any knowledge: of the method, "
            f"of all other records, and of anything learned later. Only the noise has to be unknown, and {kept}",
            "Not against those who can see the data itself, or the memory of the machine during the run.",
        ),
    )


def _learned(observer: Observer, shift: float, data: dict[str, Any]) -> Section:
    claim, factor = data["claim"], _up(math.exp(min(shift, 700.0)))
    points = (
        f"If a fair coin decided the answer, the observer would guess it with a chance of at most "
        f"{_percent_up(observer.coin)}. Guessing has 50%.",
        f"If the observer says yes with a chance of at most {_FALSE_ALARMS:.0%} when the answer is no, the chance to "
        f"say yes when it is yes is at most {_percent_up(observer.detection(_FALSE_ALARMS))}. Guessing has "
        f"{_FALSE_ALARMS:.0%}.",
        f"The odds that the observer gives to a yes grow or shrink by a factor of at most {factor}, except with a "
        f"chance, over the noise, of at most {_one_in(claim['delta'])}. The table says the same for three beliefs.",
    )
    rows = tuple(
        (f"{prior:.0%}", _percent_down(belief(prior, shift)[0]), _percent_up(belief(prior, shift)[1]))
        for prior in _PRIORS
    )
    table = Table("How far a belief can move", ("believed before", "afterwards at least", "afterwards at most"), rows)
    return Section(
        "How much an observer can learn", (_QUESTION[claim["relation"], data["dataset"]["unit"] != 1],), points, table
    )


def _numbers(observer: Observer, shift: float, about: _About, data: dict[str, Any]) -> Section:
    g = data["claim"]
    epsilon, delta = g["epsilon"], g["delta"]
    further = _up(math.exp(min(2.0 * shift, 700.0)))
    event = (
        f"For any outcome, the probability in either of the two runs compared above is at most "
        f"e^epsilon = {_up(math.exp(min(epsilon, 700.0)))} times that in the other, plus delta = {delta:g}."
    )
    if about.n is None:
        asked, number = "each record", f"{_up(min(2.0 * delta, 1.0))} per record read,"
        much = int((_rows(data) / Decimal(repr(delta))).to_integral_value(ROUND_CEILING))
        end = f" The stream should end before {much:,} records: from there on, delta allows the release of a whole one."
    else:
        asked, end = about.each, ""
        number = _up(min(2.0 * delta, 1.0) * about.n)
    rare = (
        f"delta allows for rare outcomes at which that factor does not hold. Ask one question about {asked}: the "
        f"number of those for which the bound on beliefs above fails is at most {number} on average. Odds change by a "
        f"factor of more than {further} with a chance of {_chance(observer.excess(2.0 * shift))}.{end}"
    )
    return Section(f"What epsilon = {_up(epsilon, 4)} and delta = {delta:g} mean", (event, rare))


def _published(about: _About, data: dict[str, Any]) -> Section:
    what = about.released[0].upper() + about.released[1:]
    if data["claim"]["scope"] == "last iterate":
        words = f"{what}, and nothing else that was computed from the records."
    else:
        words = f"{what}, and every noisy value that went into that."
    return Section(
        "What may be published",
        (
            f"{words} Anything computed from that without the records is covered too: {about.enables}, this "
            "page, the receipt. Anything else computed from the records is not covered, for example a score of a "
            "model on them without noise.",
        ),
    )


def _read(what: list[str]) -> Section:
    if not what:
        words = "Nothing, according to the receipt. Everything the run had to know about the data was declared."
    else:
        words = (
            f"The following was not declared, and was read from the records: {', '.join(what)}. The promise does not "
            "cover what it reveals. To avoid this, declare it and fit again."
        )
    return Section("What was read from the data without protection", (words,))


def _not_promised(about: _About, data: dict[str, Any]) -> Section:
    number = "The number of records in each portion" if about.n is None else f"The number of records ({about.n:,})"
    return Section(
        "What is not promised",
        points=(
            f"{number} and of features ({data['plan']['d']:,}) is public.",
            "Whatever was declared beforehand is public: columns, ranges, categories, classes, the bound on a row. It "
            "must come from general knowledge and not from these records; no receipt can show that.",
            "Other releases about the same people add to this one: another model, a table, or a run that somebody "
            "looked at and threw away.",
            "What holds for many people is not a secret of any one of them. If a model shows that smokers fall ill "
            "more often, that says something about every smoker, in the data or not. The promise is that it would have "
            "been learned as well had this one record been another.",
            "For the same reason an observer who does not know the other records may learn from them: relatives "
            "resemble each other.",
            "Error messages about the form of the data, running times, and the machine itself are outside the promise.",
            "Privacy says nothing about whether a model is accurate, fair or lawful to use.",
        ),
    )


def _rests_on(data: dict[str, Any]) -> Section:
    noise = data["arithmetic"]
    facts = data["facts"]["library"] if data.get("facts") else ()
    word = "; ".join(declared_words(facts, data["plan"]))
    return Section(
        "What it rests on",
        points=(
            *([f"What was declared of the loss, domain or learner, unproved: {word}."] if word else []),
            f"Random noise ({noise_words(noise['drawn'])}), from {noise['source']}.",
            _arithmetic(noise["numbers"]),
            "Records beyond the declared bounds were clipped to them, so a wrong bound costs accuracy, not privacy.",
            f"The theorems named in the receipt, as dpconvex {data['plan']['library']} implements them; each has a "
            "proof note in its documentation. Neither the proofs nor the program have been reviewed by outsiders yet.",
        ),
    )


def _arithmetic(numbers: str) -> str:
    if numbers.startswith("exact") and "float64" not in numbers:
        return f"Arithmetic: {numbers}. What is published has exactly the law that the theorems are about."
    return (
        f"Arithmetic: {numbers}. The theorems are about real numbers; where numbers are float64, attacks on their last "
        "digits are not excluded."
    )


def _again(verdict: Verdict, data: dict[str, Any]) -> Section:
    rows = (
        ("library", f"dpconvex {data['plan']['library']}"),
        ("plan", data["plan"]["digest"]),
        ("what was released", data["released"]),
        ("receipt", data["digest"]),
    )
    done = (
        f"That was done for this page: {verdict.value.rpartition('parts: ')[2]}."
        if verdict
        else "For this page that was not possible, because another version of the library made the receipt, or it "
        "rests on parts that are not installed here. What was checked is that the guarantee follows from the "
        "derivation on the receipt."
    )
    return Section(
        "How to check it again",
        (
            "The command `dpconvex verify` with the receipt, or the model that holds it, plans again from the public "
            f"facts written there and compares the guarantee. {done} That the run took place as described, and on "
            "which records, has to be signed by whoever ran it.",
        ),
        table=Table("Digests to compare (sha256)", ("what", "digest"), rows),
    )


# Numbers, rounded to the safe side ----------------------------------------------------------------------------------


def _up(value: float, digits: int = 3) -> str:
    rounded = round_up(value, digits)
    return f"{rounded:,.0f}" if 1e3 <= rounded < 1e9 else f"{rounded:.{digits}g}"


def _percent_up(share: float) -> str:
    return f"{math.ceil(share * 1e3) / 10.0:.1f}%"


def _percent_down(share: float) -> str:
    return f"{math.floor(share * 1e3) / 10.0:.1f}%"


def _one_in(delta: float) -> str:
    """Twice delta, as one in a number."""
    many = int(1 / (2 * Decimal(repr(delta))))
    if many < 10:
        return _up(min(2.0 * delta, 1.0))
    return f"1 in {many:,}" if many < 10**12 else f"{2.0 * delta:.3g}"


def _chance(value: float) -> str:
    return "less than 1 in a billion" if value < 1e-9 else f"at most {_up(value)}"
