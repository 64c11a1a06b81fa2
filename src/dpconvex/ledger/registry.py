"""A release in the form of the public Differential Privacy Deployments Registry (registry.opendp.org).

Half of what the registry asks for is on a receipt. The rest only people know: they are asked for it, and nothing is
made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpconvex.errors import InputError
from dpconvex.kernel.claims import PERSON
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import check_answers
from dpconvex.words import neighbour_words, theorems_of

__all__ = ["ASKED", "registry_record"]

# What only people know.
ASKED = {
    "name": "Name of the deployment",
    "curator": "Organisation that holds the data",
    "curator_type": "What it is: Industry, Government, Academia, Non-profit",
    "description": "What the data product is",
    "intended_use": "What it is for",
    "region": "Where the people live",
    "sector": "Sector, such as Health",
    "data_domain": "What the records are about",
    "access": "Who sees the data, and who only the release",
    "preprocessing": "What was done to the data before, and how settings were chosen",
    "justification": "Why this budget and this unit are right",
    "contact": "Who answers questions",
}


def registry_record(receipt: Receipt, answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of a release for the registry.

    Parameters
    ----------
    receipt : Receipt
    answers : mapping
        What only people know, by the keys of `ASKED`.

    Raises
    ------
    InputError
        If an answer is missing or blank, or a key unknown.

    Examples
    --------
    >>> import numpy as np, dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> receipt = plan.run(np.ones((4, 2)), np.ones(4), dataset="for the registry").receipt
    >>> record = registry_record(receipt, {name: "said by a person" for name in ASKED})
    >>> record["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 0.99999..., 'delta': 1e-06}
    """
    said = check_answers(answers, ASKED, "the registry")
    if not receipt.private:
        raise InputError("the noise of this release came from a fixed seed: it protects nobody, and is no deployment")
    sections = receipt.sections
    plan, claim, dataset, outside = (sections[name] for name in ("plan", "claim", "dataset", "outside"))
    unit, profile = dataset["unit"], claim["profile"]
    details = [f"{neighbour_words(claim['relation'], unit)}; the number of records ({plan['n']}) is public"]
    if profile["kind"] == "GDP":
        details.append(f"{profile['mu']:.6g}-Gaussian differential privacy")
    quantities = [*outside["not_covered"], *(f"{what} (read from the data)" for what in outside["read_from_data"])]
    record: dict[str, Any] = {
        "basic": {
            "name": said["name"],
            "data_curators": [{"data_curator_name": said["curator"], "data_curator_type": said["curator_type"]}],
            "description": said["description"],
            "intended_use": said["intended_use"],
            "data_product_type": "Machine learning model",
            "data_product_region": said["region"],
            "data_product_sector": said["sector"],
            "publication_date": sections["engine"].get("date"),
        },
        "dp_variant": {
            "variant_name": "Gaussian DP" if profile["kind"] == "GDP" else "Approximate DP",
            "data_domain": said["data_domain"],
            "unprotected_quantities": "; ".join(quantities),
        },
        "privacy_loss": {
            "privacy_unit": "Person-level" if unit == PERSON or unit > 1 else "Record-level",
            "privacy_unit_details": "; ".join(details),
            "privacy_parameters": {"epsilon": receipt.epsilon, "delta": receipt.delta},
            "privacy_parameters_details": f"stated by the receipt {sections['digest']}, which anyone can verify",
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": said["access"],
            "release_type": "Many releases" if dataset["stream"] else "One release",
            "access_type": "Non-interactive",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": said["preprocessing"],
            "mechanisms": f"{plan['algorithm']['name']} of dpconvex {plan['library']}; noise: "
            f"{', '.join(sections['arithmetic']['drawn'])} ({sections['arithmetic']['source']}); arithmetic: "
            f"{sections['arithmetic']['numbers']}",
            "composition": f"theorems: {', '.join(sorted(theorems_of(claim['derivation'])))}"
            + ("" if sections["ledger"] is None else f"; added up in the ledger {sections['ledger']['ledger']}"),
            "post_processing": "What is computed from the released weights without the data costs nothing more.",
            "justification": said["justification"],
        },
        "administrative": {"status": "Pending", "registry_authors": [said["contact"]]},
    }
    return {"deployment": record}
