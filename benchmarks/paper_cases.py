"""How long the paper's small cases take with default settings.

    python benchmarks/paper_cases.py [--rounds 7]

80 rows of the synthetic case, and 180 rows of five attributes shaped like the Adult
experiment: the census file itself if DISCREET_DATA or ../shared/data has it, made-up rows
with the same alphabets if not. Rounds are interleaved; the median and the spread are
printed beside the target of 1 s.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd

from discreet import NPOMapper
from discreet.paper.synthetic import draw_table

COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
ATTRIBUTES = ["age", "education", "occupation", "relationship", "sex"]
MARRIED = ("Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse")


def adult_file() -> Path | None:
    folders = [os.environ.get("DISCREET_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    files = [Path(folder) / "adult.data.gz" for folder in folders if folder]
    return next((file for file in files if file.exists()), None)


def adult_rows(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return 30 rows from each cell of income and marital status."""
    rng = np.random.default_rng(seed)
    file = adult_file()
    if file is None:
        sizes = {"age": 15, "education": 16, "occupation": 15, "relationship": 6, "sex": 2}
        made = pd.DataFrame({k: rng.integers(v, size=180) for k, v in sizes.items()})
        return made, np.arange(180) % 2, np.arange(180) // 2 % 3
    table = pd.read_csv(file, header=None, names=COLUMNS, skipinitialspace=True)
    h = (table["income"] == ">50K").to_numpy().astype(int)
    status = table["marital-status"]
    g = np.where(status.isin(MARRIED), 0, np.where(status == "Never-married", 1, 2))
    cells = [np.flatnonzero((h == a) & (g == b)) for a in (0, 1) for b in (0, 1, 2)]
    rows = np.concatenate([rng.permutation(cell)[:30] for cell in cells])
    return table[ATTRIBUTES].iloc[rows].reset_index(drop=True), h[rows], g[rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    source = "Adult" if adult_file() else "made-up rows shaped like Adult"
    cases = {
        "synthetic, 80 rows": lambda seed: draw_table(80, 0.2, seed),
        f"{source}, 180 rows": adult_rows,
    }
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for seed in range(rounds + 1):
        for name, draw in cases.items():
            X, h, g = draw(seed)
            start = time.perf_counter()
            NPOMapper(random_state=seed).fit(X, h, private=g)
            if seed:  # the first round loads and warms up
                taken[name].append(time.perf_counter() - start)
    print(f"{'':32}{'median':>9}{'least':>9}{'most':>9}{'target':>9}")
    for name, times in taken.items():
        figures = (statistics.median(times), min(times), max(times), 1.0)
        print(f"{name:32}" + "".join(f"{figure:8.2f}s" for figure in figures))


if __name__ == "__main__":
    main()
