"""Made-up outcomes of the paper's experiments, for whoever prints, draws or serves them."""

from dataclasses import replace

import numpy as np

from discreet import RandomizedResponseMapper
from research.paper.datasets import OPEN_CLOSE
from research.paper.experiment import ask, not_run, run_experiment
from research.paper.pictures import svg_of
from research.paper.report import render_page
from research.reproduce import EXPERIMENTS

DRAWS = 3
ORIGINS = {name: each.origin for name, each in EXPERIMENTS.items()}
COMMAND = "python -m research.reproduce --all"
GESTURES = [
    *(code for codes in OPEN_CLOSE.values() for code in codes),
    0,
    406520,  # the fridge, which is of no interest
]


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


def make_page():
    """All results, and the page that shows them."""
    results = every_result()
    pictures = {
        each.name: svg_of(EXPERIMENTS[each.name].picture, each)
        for each in results
        if each.not_run is None
    }
    return results, render_page(results, ORIGINS, pictures, COMMAND)


def everything_told():
    """A mapper that all but never lies."""
    return RandomizedResponseMapper(n_symbols=16, ldp_epsilon=50.0, random_state=0)


def drill_rows(n=400, seed=0):
    """Rows of the data set's form: time, 242 readings, 7 labels."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-900, 900, size=(n, 250)).astype(float)
    values[:, 0] = np.arange(n) * 33
    values[:, 243:] = 0
    values[:, 243] = rng.choice([0, 1, 2, 4, 5], n)
    values[:, 249] = rng.choice(GESTURES, n)
    values[:, 36] = 500 * (values[:, 243] == 2) + rng.integers(50, size=n)  # walking shows here
    values[:, 194] = np.isin(values[:, 249], (406505, 404505))  # the dishwasher's reed switch
    values[rng.random(n) < 0.1, 5] = np.nan
    values[:, 230] = np.nan
    return values


def drill_file(folder, values, name="S2-Drill.dat"):
    file = folder / name
    lines = [" ".join("NaN" if np.isnan(v) else str(int(v)) for v in row) + " " for row in values]
    file.write_text("\n".join(lines) + "\n")
    return file
