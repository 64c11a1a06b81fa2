"""The RAND health insurance experiment: who sees a doctor in a year."""

from __future__ import annotations

from dpconvex.data.schema import Classes, Ignore, Number, Schema
from dpconvex.datasets.described import Described, ignore, listed, yes_no
from dpconvex.datasets.fetch import STATSMODELS

_FLAG = listed("0, 1")

_SCHEMA = Schema(
    {
        "plan": Ignore("its terms stand in coins, idp and mdeoff"),
        "site": listed("1, 2, 3, 4, 5, 6"),  # six places took part
        "coins": Number(0, 100),  # per cent of the cost that the family pays
        "tookphys": _FLAG,
        "year": Number(1, 5),
        "zper": Ignore("identifies the person"),
        "black": Number(0, 1),  # a flag, published with a fraction where it was filled in
        "income": Number(1_000, 25_000, log=True),  # of the family; with more (in dollars of 1973) none was enrolled
        "xage": Number(0, 67),  # younger than 62 when enrolled, for at most five years
        "female": _FLAG,
        "educdec": Number(0, 20),  # years of education of who decides in the family; 20 takes a doctorate
        "time": Number(0, 1),  # the share of the year
        "num": Number(1, 10),  # of people in the family; 10 is a round number
        "mhi": Number(0, 100),  # an index from 0 to 100
        "disea": Number(0, 40),  # a weighted count of chronic diseases; no limit is published, and 40 is a round number
        "physlm": Number(0, 1),  # likewise
        "ghindx": Number(0, 100, missing="flag"),  # an index from 0 to 100
        "mdeoff": Number(0, 1_000, log=True),  # the most that a family had to pay: at most 1,000 dollars
        "pioff": Number(0, 1_000, log=True),  # a payment to make up for that
        "child": _FLAG,
        "fchild": _FLAG,
        "idp": _FLAG,
        "hlthg": _FLAG,
        "hlthf": _FLAG,
        "hlthp": _FLAG,
        "xghindx": Ignore("ghindx, its gaps filled in"),
        **ignore("derived from other columns", "lfam", "lpi", "logc", "fmde", "linc", "lnum"),
        "mdvis": Ignore("the target is derived from it"),
        **ignore(
            "what the year brought, like the target",
            *("outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "totadm", "inpmis", "mentvis"),
            *("notmdvis", "lnmeddol", "binexp"),
        ),
    },
    target=Classes("visited", ("no", "yes")),
    rows_per_person=5,  # a row for each year, and people were enrolled for three years or five
    name="randhie",
)


RANDHIE = Described(
    _SCHEMA,
    title="RAND health insurance experiment",
    task="did a person see a doctor in the year?",
    size="20,190 rows, 45 columns, up to five rows (years) for each of 5,912 people",
    origin="the RAND corporation, in six places of the United States, 1974 to 1982",
    licence="public domain, as statsmodels states",
    citation="A. C. Cameron and P. K. Trivedi. Microeconometrics: methods and applications. Cambridge University "
    "Press, 2005",
    archive=STATSMODELS,
    files={"all": "statsmodels/datasets/randhie/src/randhie.csv"},
    target=lambda frame: yes_no("visited", frame["mdvis"] > 0),
    note="the target is derived: mdvis, the number of visits in the year, is more than 0",
    person="zper",
)
