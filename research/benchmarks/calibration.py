"""Does the advantage that the mapper expects agree with the truth?

    python -m research.benchmarks.calibration [--draws 6]

On the paper's synthetic case the true advantage of any mapping is known exactly. For
several sizes and ratios, mappings are designed on four fifths of the rows; the table holds
their true advantage against the three estimates from the fifth that was left out: the
attacker that learned from the design's own rows (errs low), the best rule in hindsight
(errs high), and the middle of the two, which the mapper reports.
"""

import argparse

import numpy as np

from discreet import NPOMapper
from discreet.design.held_out import rule_advantage
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities
from research.paper.synthetic import draw_table, exact_figures, tables_by_reading

CORRELATION = 0.2


def conditional(mapping, X, labels):
    outputs = output_probabilities(mapping.tables, mapping.encode(X))
    return np.stack([outputs[labels.to_numpy() == k].mean(axis=0) for k in (0, 1)])


def one_draw(rows: int, ratio: float, seed: int) -> tuple[float, float, float, float]:
    X, h, g = draw_table(rows, CORRELATION, seed)
    cut = rows * 4 // 5
    mapper = NPOMapper(privacy_ratio=ratio, random_state=seed)
    mapping = mapper.fit(X[:cut], h[:cut], private=g[:cut]).mapping_
    known, unseen = conditional(mapping, X[:cut], g[:cut]), conditional(mapping, X[cut:], g[cut:])
    low, high = rule_advantage(known, unseen), advantage(unseen)
    true = 0.5 - exact_figures(tables_by_reading(mapping), CORRELATION).risk
    return true, low, high, 0.5 * (low + high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    draws = parser.parse_args().draws
    print(f"{'rows':>6}{'ratio':>8}{'true':>9}{'learned':>9}{'hindsight':>11}{'middle':>9}")
    for rows in (300, 1000, 3000):
        for ratio in (0.9, 0.98, 0.998):
            found = np.mean([one_draw(rows, ratio, seed) for seed in range(draws)], axis=0)
            true, low, high, middle = found
            print(f"{rows:6}{ratio:8}{true:9.3f}{low:9.3f}{high:11.3f}{middle:9.3f}", flush=True)


if __name__ == "__main__":
    main()
