"""How far a budget is spent: the amounts that a claim takes from it, whoever chose the next claim and why.

A budget has limits, and a claim amounts; runs are allowed while for each limit the sum of the amounts stays below it.
Which sums may be held against fixed limits, whatever the next claim depends on, is said in docs/proofs/filters.md.
Amounts are counted in whole units, 2^-50 of their limit, rounded up, so that sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpconvex.errors import BudgetError, HypothesisError, InputError
from dpconvex.kernel.budget import Budget
from dpconvex.kernel.claims import Claim
from dpconvex.kernel.profiles import GDP, Concentrated, concentrated_rho
from dpconvex.rounding import round_down
from dpconvex.theorems.filters import concentration, gaussian_cover, renyi_divergence, renyi_limit

FORMS = {"gdp": ("mu", "delta"), "zcdp": ("rho",), "rdp": ("divergence",)}  # and the names of their limits
UNITS = 2**50  # of each limit
_PART = 1e-2  # of the delta that is set aside, which one curve may take
_ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0, 512.0)


@dataclass(frozen=True)
class Filter:
    """The limits of a budget, in one form.

    Attributes
    ----------
    form : {"gdp", "zcdp", "rdp"}
    limits : dict
        "gdp": the largest sum of the squares of mu is the square of "mu", and that of deltas is "delta". "zcdp": "rho".
        "rdp": "divergence", at the order "order".

    Examples
    --------
    >>> from dpconvex.kernel.budget import Budget
    >>> found = filter_of(Budget(1.0, 1e-6))
    >>> found.form, round(found.limits["mu"], 4), found.limits["delta"]
    ('gdp', 0.2366, 1e-08)
    """

    form: str
    limits: dict[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the limits that amounts are held against."""
        return FORMS[self.form]

    def amounts(self, claim: Claim) -> dict[str, float]:
        """What a claim takes, in the form of the filter; a `BudgetError` if it has no such form."""
        profile = claim.profile
        if self.form == "gdp":
            if isinstance(profile, GDP):
                return {"mu": profile.mu, "delta": 0.0}
            try:
                cover = gaussian_cover(claim, _PART * self.limits["delta"]).profile
            except HypothesisError as error:
                raise BudgetError(
                    f"{error}; only as the first release about its data set could it be charged"
                ) from None
            gauss, lost = cover.parts  # type: ignore[union-attr]
            return {"mu": gauss.mu, "delta": lost.dlt}
        if self.form == "zcdp":
            found, name = concentration(profile), "rho"
        else:
            found, name = renyi_divergence(profile, self.limits["order"]), "divergence"
        if found is None:
            raise BudgetError(
                f"the guarantee of this run, a {type(profile).__name__}, has no {self.form} form, in which this data "
                "set is accounted for: declare data sets for such runs with form 'gdp'"
            )
        return {name: found}

    def units(self, amounts: Mapping[str, float]) -> list[int]:
        """Whole units that amounts take from each limit, rounded up."""
        power = 2 if self.form == "gdp" else 1
        found = []
        for name in self.names:
            share = Fraction(amounts[name]) / Fraction(self.limits[name])
            found.append(math.ceil((share**power if name == "mu" else share) * UNITS))
        return found

    def left(self, spent: list[int], delta: float) -> float:
        """Largest epsilon of one more release that is Gaussian, at a delta of its own; 0 if there is none."""
        share = max(0, UNITS - spent[0]) / UNITS * (1.0 - 1e-12)
        limit = self.limits[self.names[0]]
        if self.form == "gdp":
            mu = limit * math.sqrt(share)
        else:
            mu = math.sqrt(2.0 * limit * share / self.limits.get("order", 1.0))
        found = round_down(GDP(mu).epsilon(delta), 6) if mu > 0.0 else 0.0
        while found >= 1e-6 and self.units_of_mu(Budget(found, delta).mu)[0] + spent[0] > UNITS:
            found = round_down(found * (1.0 - 1e-6), 6)
        return found if found >= 1e-6 else 0.0

    def units_of_mu(self, mu: float) -> list[int]:
        """What a mu-GDP release takes."""
        if self.form == "gdp":
            return self.units({"mu": mu, "delta": 0.0})
        amount = concentration(GDP(mu)) if self.form == "zcdp" else renyi_divergence(GDP(mu), self.limits["order"])
        assert amount is not None
        return self.units({self.names[0]: amount})

    def epsilon(self, spent: list[int], budget: Budget) -> float:
        """Epsilon of everything spent, at the delta of the budget, rounded up."""
        if not any(spent):
            return 0.0
        share = [min(1.0, (units + 1) / UNITS) for units in spent]
        if self.form == "gdp":
            mu, delta = self.limits["mu"] * math.sqrt(share[0]), self.limits["delta"] * share[1]
            found = GDP(mu * (1.0 + 1e-12)).epsilon(budget.delta - (delta if spent[1] else 0.0))
        elif self.form == "zcdp":
            found = Concentrated(self.limits["rho"] * share[0]).epsilon(budget.delta)
        else:
            order, used = self.limits["order"], self.limits["divergence"] * share[0]
            found = budget.epsilon - (renyi_limit(budget, order) - used)
        return min(found, budget.epsilon)

    def to_json(self) -> dict[str, Any]:
        """Plain form."""
        return {"form": self.form, **self.limits}

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Filter:
        """Read the plain form."""
        return Filter(str(plain["form"]), {name: float(value) for name, value in plain.items() if name != "form"})


def filter_of(budget: Budget, form: str = "gdp", *, aside: float = 1e-2, order: float | None = None) -> Filter:
    """Return the limits of a budget in a form.

    Parameters
    ----------
    budget : Budget
    form : {"gdp", "zcdp", "rdp"}
    aside : float
        With "gdp", the fraction of delta that is set aside for releases that are only nearly Gaussian.
    order : float, optional
        With "rdp", the one order; by default the one at which most Gaussian releases fit.
    """
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    if isinstance(aside, bool) or not isinstance(aside, float) or not 1e-6 <= aside <= 0.5:
        raise InputError("aside must be a number from 1e-6 to 0.5: the fraction of delta for releases that are curves")
    if form == "gdp":
        part = round_down(aside * budget.delta)
        return Filter(form, {"mu": Budget(budget.epsilon, budget.delta - part, budget.relation).mu, "delta": part})
    if form == "zcdp":
        return Filter(form, {"rho": concentrated_rho(budget.epsilon, budget.delta)})
    if order is None:
        order = max(_ORDERS, key=lambda a: renyi_limit(budget, a) / a)
    limit = renyi_limit(budget, float(order))
    if limit <= 0.0:
        raise InputError(f"at the order {order:g} no divergence is within the budget: take a larger order or epsilon")
    return Filter(form, {"divergence": limit, "order": float(order)})
