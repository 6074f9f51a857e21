"""Made-up outcomes of the paper's experiments, for whoever prints, draws or serves them."""

from dataclasses import replace

import numpy as np

from discreet.paper.registry import EXPERIMENTS
from discreet.paper.run import ask, not_run, run_experiment

DRAWS = 3


def quick(name):
    """An experiment that makes its figures up at once, some of its methods without draws."""
    experiment = EXPERIMENTS[name]
    drawn = [m for m in experiment.methods if m not in ("raw", "optimum")]

    def figures(method, seed):
        rng = np.random.default_rng([seed, len(method), len(name)])
        return {column.key: float(rng.uniform(0.05, 0.6)) for column in experiment.columns}

    return replace(
        experiment,
        measure=lambda _, seed, __: {m: figures(m, seed) for m in drawn},
        known=lambda _: {m: figures(m, 99) for m in experiment.methods if m not in drawn},
    )


def result(name, draws=DRAWS):
    experiment = quick(name)
    return run_experiment(experiment, ask(experiment, draws, 0, None))


def every_result():
    """All experiments, the last of them for want of its file with printed figures only."""
    *others, last = EXPERIMENTS
    missing = not_run(EXPERIMENTS[last], ask(EXPERIMENTS[last], None, 0, None), "No <such> file.")
    return [*map(result, others), missing]
