"""From a start to a local optimum that keeps the wishes.

Steps in all tables at once, each within a distance that grows while the linear picture holds
and shrinks where it fails (a trust region). At the end whatever is still violated is mixed
away, and single sensors take exact steps of their own, which never worsen anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.arrays import Floats, Ints
from research.optimum.limits import Wishes
from research.optimum.program import Attackers, Problem, Standing, stand, take_step
from research.optimum.starts import allow, constant_tables, draw_start

Tables = Sequence[Floats]

PRICES = (2.0, 20.0, 400.0)  # of a unit of excess, in public accuracy
_HOPELESS = 1e-3
_FIRST_TRUST, _LAST_TRUST = 0.3, 1e-7
_NO_GAIN = 1e-10
_MAX_STEPS = 40
_SMALL = (1e-4, 1e-6, 1e-8)  # entries to clear, if the wishes allow
_NO_LOSS = 1e-7
_PATIENCE = 8  # steps between looks at whether a climb can still catch up with the best


def climb(problem: Problem, tables: Tables, to_beat: float = 0.0) -> Standing:
    """Return the local optimum that steps lead to, or where it became hopeless to beat another.

    First the wishes have a moderate price, so that a start is not thrown back to tables that
    say nothing; as long as they are not kept it rises, to what no accuracy is worth.

    ``to_beat``: an accuracy already reached elsewhere within the wishes.
    """
    here = stand(problem, tables)
    for price in PRICES:
        here = _climb_at(problem, here, price, to_beat)
        if here.excess <= _NO_GAIN or here.merit(price) < to_beat - _HOPELESS:
            break
    return here


def _climb_at(problem: Problem, here: Standing, price: float, to_beat: float) -> Standing:
    trust, attackers, looked_at = _FIRST_TRUST, Attackers(), here.merit(price)
    for k in range(_MAX_STEPS):
        found = take_step(problem, here, price, trust=trust, attackers=attackers)
        if found is None:
            break
        there, expected = found
        hoped, gained = expected - here.merit(price), there.merit(price) - here.merit(price)
        if not problem.exact:
            attackers.learn(problem, (here if gained > _NO_GAIN else there).joint)
        if gained > _NO_GAIN:
            here = there
            trust = min(1.0, 2 * trust) if gained > 0.7 * hoped else trust
        if gained < 0.25 * hoped:
            trust *= 0.25 if gained <= _NO_GAIN else 0.5
        if hoped < _NO_GAIN or trust < _LAST_TRUST:
            break
        if k % _PATIENCE == _PATIENCE - 1:
            # Given up if the last steps, repeated three times, would not catch up.
            if here.merit(price) + 3 * (here.merit(price) - looked_at) < to_beat:
                break
            looked_at = here.merit(price)
    return here


def fit_to_rule(problem: Problem, tables: Tables, rule: Ints) -> list[Floats]:
    """Return tables that suit a given rule, sensor after sensor.

    A climb only ever suits the rule that its start makes best. Another rule, even an odd one,
    may lead over to better ground.
    """
    here = stand(problem, tables)
    for sensor in range(len(here.tables)):
        found = take_step(problem, here, PRICES[0], sensor=sensor, rule=rule)
        here = here if found is None else found[0]
    return here.tables


def settle(problem: Problem, wishes: Wishes, here: Standing) -> Standing:
    """Return tables that keep the wishes, mixed with constant ones by as little as it takes.

    Mixing a table with one constant row only ever lowers what the outputs tell, about
    anything, so the least share is found by bisection.
    """
    if np.isfinite(problem.ldp_epsilon).any():
        here = stand(problem, allow(problem, here.tables))
    if wishes.kept_by(problem.distribution, here.joint):
        return here
    rows = [np.broadcast_to(table.mean(axis=0), table.shape) for table in here.tables]
    least, most, best = 0.0, 1.0, stand(problem, rows)
    for _ in range(40):
        share = 0.5 * (least + most)
        pairs = zip(here.tables, rows, strict=True)
        mixed = stand(problem, [(1 - share) * table + share * row for table, row in pairs])
        if wishes.kept_by(problem.distribution, mixed.joint):
            most, best = share, mixed
        else:
            least = share
    return best


def tidy(problem: Problem, wishes: Wishes, here: Standing) -> Standing:
    """Set the smallest entries to 0 where that changes nothing that matters.

    A solver leaves entries of 1e-9 behind. They hardly count in an error, but an output that
    only they can cause may tell everything.
    """
    for small in _SMALL:
        cleared = [np.where(table < small, 0.0, table) for table in here.tables]
        whole = [table / table.sum(axis=1, keepdims=True) for table in cleared]
        there = stand(problem, allow(problem, whole))
        if there.accuracy > here.accuracy - _NO_LOSS and wishes.kept_by(
            problem.distribution, there.joint
        ):
            return there
    return here


def step_by_sensor(problem: Problem, wishes: Wishes, here: Standing, sensor: int) -> Standing:
    """Return the best table of one sensor for the present rule and the other tables.

    The linear program is exact here if all outputs are listed. What does not improve is not
    taken.
    """
    found = take_step(problem, here, PRICES[-1], sensor=sensor)
    if found is None:
        return here
    there = settle(problem, wishes, found[0])
    return there if there.accuracy > here.accuracy else here


def climb_with_few(problem: Problem, rng: np.random.Generator) -> list[Floats]:
    """Return tables in which only so many sensors speak that all outputs can be listed.

    Who speaks is drawn, those that know more about the public fact with better chances.
    """
    order, speaking = _by_knowledge(problem, rng), 1
    while speaking < len(order) and problem.restricted_to(order[: speaking + 1]).exact:
        speaking += 1
    few = sorted(order[:speaking])
    smaller = problem.restricted_to(few)
    found = climb(smaller, draw_start(smaller, int(rng.integers(3)), rng))
    tables = constant_tables(problem)
    for t, table in zip(few, found.tables, strict=True):
        tables[t] = table
    return tables


def _by_knowledge(problem: Problem, rng: np.random.Generator) -> list[int]:
    knowledge = [
        stand(problem.restricted_to([t]), [np.eye(size)]).accuracy
        for t, size in enumerate(problem.distribution.sizes)
    ]
    spread = np.std(knowledge) * rng.normal(size=len(knowledge))
    return [int(t) for t in np.argsort(-(np.array(knowledge) + spread))]
