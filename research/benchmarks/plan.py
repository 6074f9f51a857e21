"""Does `discreet plan` name the rows that an audit needs in the end?

    python -m research.benchmarks.plan [--trials 15]

For 1, 5 and 10 binary sensors, sharp and noisy, the first table has the planned number of rows
for a limit on the advantage of 0.05, the number at which the median of simulated audits meets
it, and their ratio. The second lets an audit of too few rows say how many more it needs, as
`rows_needed` does: the median answer and what simulation finds. Then cases of another kind:
a rare class, a leak, three classes, homes, and more sensors than outputs can be listed for.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from discreet.auditing.bounds.certificates import certify_advantage
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.rows_needed import (
    IN_COMMON,
    Plan,
    rows_for,
    rows_needed,
    sketch_tables,
)

LIMIT, ALPHA = 0.05, 0.05


def draw(plan, n, rng):
    """Draw codes of which, for a leak, some are shifted by class."""
    sizes = [len(table) for table in plan.tables]
    if plan.group_size:
        return draw_groups(plan, round(n), sizes, rng)
    index = np.repeat(np.arange(len(plan.shares)), np.round(n * np.array(plan.shares)).astype(int))
    codes = rng.integers(0, sizes, (len(index), len(sizes)))
    if plan.leak:  # class 1 has the first code of the first sensor more often
        moved = (index == 1) & (rng.random(len(index)) < 2 * shift(plan))
        codes[moved, 0] = 0
    return AuditRows(plan.tables, codes, index, len(plan.shares))


def draw_groups(plan, n, sizes, rng):
    """Draw groups whose rows repeat the group's own code often enough."""
    groups = np.repeat(np.arange(n), plan.group_size)
    own = rng.integers(0, sizes, (n, len(sizes)))[groups]
    repeats = rng.random(own.shape) < np.sqrt(IN_COMMON)
    codes = np.where(repeats, own, rng.integers(0, sizes, own.shape))
    index = rng.choice(len(plan.shares), len(groups), p=plan.shares)
    return AuditRows(plan.tables, codes, index, len(plan.shares), groups)


def shift(plan):
    """Return which share of class 1 moves to code 0 for a total variation of twice the leak."""
    table = plan.tables[0]
    return plan.leak / (0.5 * np.abs(table[0] - table.mean(axis=0)).sum())


def certified(rows):
    bound = certify_advantage(rows, ALPHA).bound
    return 0.5 if bound is None else bound


def simulated(plan, start, trials):
    """Return the number of rows at which the median audit meets the limit."""
    few, many = start / 4, start * 4
    rng = np.random.default_rng(1)
    while many / few > 1.04:
        middle = np.sqrt(few * many)
        bounds = [certified(draw(plan, middle, rng)) for _ in range(trials)]
        few, many = (few, middle) if np.median(bounds) <= LIMIT else (middle, many)
    return many


def show(name, plan, trials):
    planned = rows_for(plan, LIMIT)
    found = simulated(plan, planned, trials)
    print(f"{name:34}{planned:10}{found:12.0f}{planned / found:8.2f}", flush=True)
    return found


def later(name, plan, found, trials):
    rng = np.random.default_rng(2)
    for part in (0.1, 0.4):
        n = part * found
        answers = [rows_needed(draw(plan, n, rng), LIMIT, ALPHA) for _ in range(trials)]
        total = np.median([np.inf if more is None else n + more for more in answers])
        print(f"{name:34}{n:10.0f}{total:12.0f}{found:12.0f}{total / found:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=15)
    trials = parser.parse_args().trials
    began, met = time.process_time(), []
    print(f"{'rows for 0.05':34}{'planned':>10}{'simulated':>12}{'ratio':>8}")
    for kind, noise in (("sharp", 0.02), ("noisy", 0.25)):
        for sensors in (1, 5, 10):
            plan = Plan(sketch_tables(sensors, 2, noise), (0.5, 0.5), ALPHA)
            name = f"{sensors} {kind} ({noise})"
            met.append((name, plan, show(name, plan, trials)))
    print()
    five, forty = sketch_tables(5, 2, 0.1), sketch_tables(40, 2, 0.45)
    show("5 at 0.1, rare class 0.1", Plan(five, (0.9, 0.1), ALPHA), trials)
    show("5 at 0.1, leak 0.02", Plan(five, (0.5, 0.5), ALPHA, leak=0.02), trials)
    show("5 at 0.1, three classes", Plan(five, (0.4, 0.3, 0.3), ALPHA), trials)
    show("3 of four symbols at 0.1", Plan(sketch_tables(3, 4, 0.1), (0.5, 0.5), ALPHA), trials)
    homes = Plan(five, (0.8, 0.2), ALPHA, group_size=10)
    met.append(("5 at 0.1, homes of 10", homes, show("5 at 0.1, homes of 10", homes, trials)))
    show("30 at 0.4", Plan(sketch_tables(30, 2, 0.4), (0.5, 0.5), ALPHA), trials)
    show("40 at 0.45, leak 0.02", Plan(forty, (0.5, 0.5), ALPHA, leak=0.02), trials)
    print(f"\n{'after an audit':34}{'rows':>10}{'answer':>12}{'simulated':>12}{'ratio':>8}")
    for name, plan, found in met:
        later(name, plan, found, trials)
    print(f"\n{time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main()
