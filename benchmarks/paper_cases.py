"""How long the paper's small cases take with default settings.

    python benchmarks/paper_cases.py [--rounds 7]

80 rows of the synthetic case, and 180 rows of five attributes shaped like the Adult
experiment: the census file itself if DISCREET_DATA or ../shared/data has it, made-up rows
with the same alphabets if not. Rounds are interleaved; the median and the spread are
printed beside the target of 1 s.
"""

import argparse
import statistics
import time

import numpy as np
import pandas as pd

from discreet import NPOMapper
from discreet.errors import InputError
from discreet.paper.datasets import ADULT_FILE, draw_cells, load_adult
from discreet.paper.files import find_file
from discreet.paper.synthetic import draw_table


def adult_rows(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return 30 rows from each cell of income and marital status."""
    drawn, _ = draw_cells(load_adult(), seed)
    return drawn.readings, drawn.public.to_numpy(), drawn.private.to_numpy()


def made_up_rows(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = {"age": 15, "education": 16, "occupation": 15, "relationship": 6, "sex": 2}
    made = pd.DataFrame({k: rng.integers(v, size=180) for k, v in sizes.items()})
    return made, np.arange(180) % 2, np.arange(180) // 2 % 3


def has_adult() -> bool:
    try:
        find_file(ADULT_FILE, download=False)
    except InputError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    census = has_adult()
    source = "Adult" if census else "made-up rows shaped like Adult"
    cases = {
        "synthetic, 80 rows": lambda seed: draw_table(80, 0.2, seed),
        f"{source}, 180 rows": adult_rows if census else made_up_rows,
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
