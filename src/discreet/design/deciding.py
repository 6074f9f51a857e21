"""What a decision is to be good for, and the rule that follows for a fusion rule's posterior.

Where one public class is rare, the most probable class is the other one whatever the symbols
say. So by default a decision compares how much likelier the symbols made each class: that has
the largest balanced accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Floats
from discreet.data.columns import plain, written
from discreet.data.labels import Labels
from discreet.errors import InputError, Parameter, suggest
from discreet.mapping.parts import MAX_COST, Deciding, Fact

_LEAST_SHARE = 1e-6  # of a class that the fusion rule hardly ever believes in


@dataclass(frozen=True)
class Aim:
    """What decisions are to be good for.

    ``rule``: "balanced", "likely" or "cost". ``costs``: what it costs to miss each class, for the
    rule "cost".
    """

    rule: str = "balanced"
    costs: tuple[float, ...] = ()

    def deciding(self, shares: Floats) -> Deciding:
        """Return the rule for a posterior under which the classes have these shares."""
        shares = np.maximum(shares, _LEAST_SHARE)
        shares = shares / shares.sum()
        weights = {"balanced": 1.0 / (len(shares) * shares), "cost": np.array(self.costs)}
        return Deciding.model_validate(
            {
                "rule": self.rule,
                "weights": weights.get(self.rule, np.ones(len(shares))).tolist(),
                "shares": shares.tolist(),
            }
        )

    def worth(self, shares: Floats) -> Floats:
        """Return how much each class counts where classes have these shares; sums to 1."""
        if self.rule == "balanced":
            return np.full(len(shares), 1.0 / len(shares))
        found = shares * self.costs if self.rule == "cost" else shares
        return np.asarray(found / found.sum())


BALANCED = Aim()
"""What decisions are good for unless something else is asked."""


def class_shares(public: Labels) -> Floats:
    """Return how frequent the classes are among the rows."""
    return np.bincount(public.index, minlength=public.n_classes) / len(public.index)


def check_decide(value: Any) -> None:
    """Refuse what is neither the name of a rule nor costs by class."""
    if isinstance(value, str) and value in ("balanced", "likely"):
        return
    if not isinstance(value, Dict) or not value:
        raise InputError(
            "decide must be 'balanced', 'likely' or what it costs to miss a class, such as "
            f"{{'fall': 10}}, got {value!r}."
        )
    for name, cost in value.items():
        is_number = isinstance(cost, int | float | np.number) and not isinstance(cost, bool)
        if not is_number or not math.isfinite(cost) or not 0 < cost <= MAX_COST:
            raise InputError(
                f"decide: what it costs to miss the class {name!r} must be a number above 0 and "
                f"at most {MAX_COST:g}, got {cost!r}."
            )


def aim_for(value: Any, fact: Fact) -> Aim:
    """Return the aim that ``decide`` names for a public fact; unnamed classes cost 1.

    Raises InputError: if a class is named that the fact does not have.
    """
    check_decide(value)
    if isinstance(value, str):
        return Aim(value)
    costs = [1.0] * len(fact.classes)
    for name, cost in value.items():
        costs[_place(name, fact)] = float(cost)
    return Aim("cost", tuple(costs))


def _place(name: Any, fact: Fact) -> int:
    """Return which class is called so: as Python has it, or as the command line writes it."""
    names = [written(each) for each in fact.classes]
    found = plain(name)
    wanted = str(name) if found is None else written(found)
    if wanted not in names:
        raise InputError(
            Parameter("decide"),
            f" names the class {wanted!r}, which {fact.name!r} does not have. ",
            suggest(wanted, names),
        )
    return names.index(wanted)
