"""How many rows a day needs: do as many as `learn --rounds` names show it, or certify it?

    python -m research.benchmarks.day_rows [--draws 8] [--rows 1000] [--certified-only]

A mapping of the paper's world is learned from few rows for 1,440 rounds of a private fact that
stays with 0.99 from one to the next, asked to tell at most 0.10 in all of them. Then others are
learned from as many rows as it said could show that, and counted if they do. For a fact that never
changes, mappings are learned from 300,000 rows, and audited with as many as would certify it if the
tables told half as much.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import bound_window
from discreet.auditing.bounds.rows_needed import rounded
from discreet.data.split import Split
from discreet.learning import Learned, prepare
from discreet.learning_for_rounds import RoundsFigure, learn_for_rounds
from discreet.task import Task
from research.paper.synthetic import draw_table

DAY, ASKED, STAY, MANY = 1440, 0.10, 0.99, 300_000
SENSES = ((0.0, False), (0.0, True), (0.2, True))


def learned(
    rows: int, correlation: float, stay: float, seed: int, *, beyond: bool
) -> tuple[Learned, RoundsFigure]:
    X, h, g = draw_table(rows, correlation, seed)
    table = pd.DataFrame(X).rename(columns=lambda k: f"sensor {k}").assign(h=h, g=g)
    options = {"max_advantage": ASKED, "beyond_answer": beyond, "random_state": seed}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        table.to_parquet(path)
        options["time_budget"] = None
        task = Task(path, "h", ["g"], split=Split(holdout=0.0), options=options)
        return learn_for_rounds(prepare(task), DAY, stay)


def shown_rows(few: int, draws: int) -> Iterator[str]:
    yield f"stay {STAY}, asked for {ASKED}:"
    for correlation, beyond in SENSES:
        said = learned(few, correlation, STAY, 0, beyond=beyond)[1].rows_needed
        assert said is not None
        found = [learned(said, correlation, STAY, seed, beyond=beyond)[1] for seed in range(draws)]
        reached = np.median([each.reached for each in found])
        yield (
            f"  correlation {correlation:g}{', beyond the answer' * beyond}: {few} rows name "
            f"{rounded(said)}, which show it in {sum(each.met for each in found)} of {draws} draws "
            f"(median {reached:.3f})"
        )


def certified_rows(draws: int) -> Iterator[str]:
    yield f"constant, asked for {ASKED}:"
    said, bounds = [], []
    for seed in range(draws):
        found, figure = learned(MANY, 0.0, 1.0, seed, beyond=False)
        assert figure.audit_rows is not None
        X, _, g = draw_table(figure.audit_rows, 0.0, draws + seed)
        codes = found.mapping.encode(pd.DataFrame(X).rename(columns=lambda k: f"sensor {k}"))
        fact = found.mapping.private[0].places(pd.Series(g))
        rows = AuditRows(found.mapping.tables, codes, fact, 2)
        said.append(figure.audit_rows)
        bounds.append(bound_window(rows, 1.0, DAY, 0.05).advantage)
    yield (
        f"  {MANY:,} rows name {rounded(min(said))} to {rounded(max(said))} held-out rows, "
        f"which certify it in {sum(bound <= ASKED for bound in bounds)} of {draws} draws "
        f"(bounds {min(bounds):.3f} to {max(bounds):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=8, help="of the world, for each number")
    parser.add_argument("--rows", type=int, default=1000, help="that the numbers are said of")
    parser.add_argument("--certified-only", action="store_true", help="leave out what rows show")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of designs that are of no use
    parts = [] if asked.certified_only else [shown_rows(asked.rows, asked.draws)]
    for part in (*parts, certified_rows(asked.draws)):
        for line in part:
            print(line, flush=True)


if __name__ == "__main__":
    main()
