"""Why attackers learn forward: how often a lower bound on their accuracy fails without a leak.

    python -m research.benchmarks.forward_folds [--runs 4000]

500 rows whose symbols have nothing to do with the class are attacked with a table of counts.
True accuracy is 0.5, so the Clopper-Pearson lower bound at 97.5 % should exceed it in at most
2.5 % of the runs. Hits are pooled over five folds: once each fold is attacked by what was learned
from all others, once by what was learned from those before it, as the audit does.
"""

import argparse

import numpy as np

from discreet.auditing.bounds.intervals import clopper_pearson_lower

ROWS, FOLDS, ALPHA = 500, 5, 0.025


def hits(outputs: np.ndarray, label: np.ndarray, fold: np.ndarray, forward: bool) -> tuple:
    right = tested = 0
    for k in range(1 if forward else 0, FOLDS):
        taught, here = (fold < k if forward else fold != k), fold == k
        score = np.bincount(outputs[taught], 2.0 * label[taught] - 1.0, minlength=outputs.max() + 1)
        right += int(np.sum((score[outputs[here]] > 0) == label[here]))
        tested += int(here.sum())
    return right, tested


def failures(n_outputs: int, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    failed = np.zeros(2)
    for _ in range(runs):
        label, outputs = rng.integers(2, size=ROWS) == 1, rng.integers(n_outputs, size=ROWS)
        fold = rng.permutation(ROWS) % FOLDS
        for which, forward in enumerate((False, True)):
            right, tested = hits(outputs, label, fold, forward)
            failed[which] += clopper_pearson_lower(right, tested, ALPHA) > 0.5
    return tuple(failed / runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    rng = np.random.default_rng(0)
    print(f"{'outputs':>8}{'crossed':>12}{'forward':>12}   promised: at most {ALPHA:.1%}")
    for n_outputs in (2, 8, 32):
        crossed, forward = failures(n_outputs, runs, rng)
        print(f"{n_outputs:8}{crossed:12.1%}{forward:12.1%}", flush=True)


if __name__ == "__main__":
    main()
