"""Does the advantage that a mapper expects agree with the truth?

    python -m research.benchmarks.calibration [--draws 6]

On the paper's synthetic case the true advantage of any mapping is known exactly. For several sizes
and ratios, mappings are designed on four fifths of the rows. Their true advantage stands beside
what the fifth that was left out shows: the best rule in hindsight (errs high), and the estimate
that mappers report (``design/leak_estimates.py``) with its standard error.
"""

import argparse

import numpy as np

from discreet import NPOMapper
from discreet.data.columns import label_column
from discreet.design.leak_estimates import estimate_leaks
from discreet.design.training_rows import Sample
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from research.paper.synthetic import draw_table, exact_figures, tables_by_reading

CORRELATION = 0.2


def one_draw(rows: int, ratio: float, seed: int) -> tuple[float, float, float, float]:
    X, h, g = draw_table(rows, CORRELATION, seed)
    cut = rows * 4 // 5
    mapper = NPOMapper(privacy_ratio=ratio, random_state=seed)
    mapping = mapper.fit(X[:cut], h[:cut], private=g[:cut]).mapping_
    codes = mapping.encode(X)
    sample = Sample(
        codes, tuple(map(len, mapping.tables)), label_column("h", h), (label_column("g", g),)
    )
    found = estimate_leaks(
        mapping.tables, sample.take(slice(None, cut)), sample.take(slice(cut, None))
    )
    outputs, unseen = output_probabilities(mapping.tables, codes[cut:]), g[cut:].to_numpy()
    hindsight = advantage(np.stack([outputs[unseen == k].mean(axis=0) for k in (0, 1)]))
    true = 0.5 - exact_figures(tables_by_reading(mapping), CORRELATION).risk
    return true, hindsight, found.advantage, found.error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    draws = parser.parse_args().draws
    print(f"{'rows':>6}{'ratio':>8}{'true':>9}{'hindsight':>11}{'estimate':>10}{'±':>8}")
    for rows in (300, 1000, 3000):
        for ratio in (0.9, 0.98, 0.998):
            found = np.mean([one_draw(rows, ratio, seed) for seed in range(draws)], axis=0)
            true, high, middle, error = found
            print(f"{rows:6}{ratio:8}{true:9.3f}{high:11.3f}{middle:10.3f}{error:8.3f}", flush=True)


if __name__ == "__main__":
    main()
