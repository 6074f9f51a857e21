"""How often does the check of dependence raise a false alarm, and how often does it miss?

    python -m research.benchmarks.dependence [--tables 1000] [--data DIR]

Shuffled tables are independent given their classes, whatever they hold: every alarm on them is
a false one. They are windows of the occupancy and the Adult data, shuffled, and made tables of
many shapes. Series are windows of the occupancy data as they are, minute by minute, with some of
the columns and one of several private facts, and made series. DIR, or the environment variable
DISCREET_DATA, is a folder with ``occupancy_detection.csv.gz`` and ``adult.data.gz``; without it
the made tables alone are used. Times are processor seconds.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.stats import beta

from discreet.data.dependence import check_dependence

ADULT = [
    "age", "workclass", "fnlwgt", "education", "years", "marital", "occupation", "relationship",
    "race", "sex", "gain", "loss", "hours", "country", "income",
]  # fmt: skip
AIR = ["Temperature", "Humidity", "Light", "CO2", "HumidityRatio"]


# --- Made tables -----------------------------------------------------------------------------
# Each returns independent rows given the class: readings and the private fact.


def classes(n, rng, rare=0.5):
    return (rng.random(n) < rare).astype(int)


def continuous(n, rng):
    g = classes(n, rng)
    return pd.DataFrame(rng.normal(size=(n, 4)) + g[:, None]), g


def discrete(n, rng):
    g = classes(n, rng)
    return pd.DataFrame(rng.integers(0, 4, (n, 5)) + g[:, None]), g


def binary(n, rng):
    g = classes(n, rng)
    return pd.DataFrame((rng.random((n, 3)) < 0.05 + 0.3 * g[:, None]).astype(int)), g


def skewed(n, rng):
    g = classes(n, rng)
    values = np.exp(2 * rng.normal(size=(n, 3))) * (rng.random((n, 3)) < 0.1)
    return pd.DataFrame(values).assign(spread=rng.standard_cauchy(n) * (1 + 5 * g)), g


def copies_among_sensors(n, rng):
    g = classes(n, rng)
    x = rng.normal(size=n) + g
    return pd.DataFrame({"x": x, "twice": 2 * x, "sign": np.sign(x), "square": x**2}), g


def rare_classes(n, rng):
    g = rng.choice(5, n, p=[0.9, 0.05, 0.03, 0.015, 0.005])
    return pd.DataFrame(rng.normal(size=(n, 3)) * (1 + g[:, None])), g


def missing(n, rng):
    g = classes(n, rng)
    table = pd.DataFrame(rng.normal(size=(n, 4)) + g[:, None])
    return table.mask(rng.random((n, 4)) < np.array([0.3, 0.05, 0.005, 0.9])), g


def words(n, rng):
    g = classes(n, rng)
    many = rng.zipf(1.5, n).clip(max=300)
    table = pd.DataFrame({"many": many.astype(str), "few": rng.choice(["a", "b", "c"], n)})
    return table.assign(flag=rng.random(n) < 0.03), g


def sorted_by_class(n, rng):
    g = np.sort(rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]))
    return pd.DataFrame(rng.normal(size=(n, 3)) * (1 + g[:, None]) + g[:, None]), g


def wide(n, rng):
    g = classes(n, rng)
    shared = rng.normal(size=(n, 1))
    return pd.DataFrame(rng.normal(size=(n, 60)) + shared), g


MADE = (
    continuous, discrete, binary, skewed, copies_among_sensors, rare_classes, missing, words,
    sorted_by_class, wide,
)  # fmt: skip


# --- Made series -----------------------------------------------------------------------------


def autoregressive(n, rng, correlation=0.5):
    noise = rng.normal(size=n) * np.sqrt(1 - correlation**2)
    x = np.empty(n)
    x[0] = rng.normal()
    for i in range(1, n):
        x[i] = correlation * x[i - 1] + noise[i]
    return x


def series(n, rng):
    return pd.DataFrame({"x": autoregressive(n, rng)}), classes(n, rng)


def one_of_five(n, rng):
    table = pd.DataFrame(rng.normal(size=(n, 4))).assign(x=autoregressive(n, rng))
    return table, classes(n, rng)


def series_of_levels(n, rng):
    steps = rng.random(n) < 0.5
    steps[0] = True
    drawn = rng.choice(["home", "work", "away"], n)
    return pd.DataFrame({"x": drawn[np.maximum.accumulate(np.where(steps, np.arange(n), 0))]}), (
        classes(n, rng)
    )


def class_in_runs(n, rng):
    x, state = autoregressive(n, rng), autoregressive(n, rng, 0.99)
    return pd.DataFrame({"x": x + (state > 0)}), (state > 0).astype(int)


SERIES = (series, one_of_five, series_of_levels, class_in_runs)


# --- Real tables -----------------------------------------------------------------------------


def read_occupancy(folder):
    table = pd.read_csv(folder / "occupancy_detection.csv.gz", parse_dates=["date"])
    when = table["date"].dt
    table["office"] = when.hour.between(8, 17) & (when.day_of_week < 5)
    table["quarter"] = when.hour // 6
    table["weekend"] = when.day_of_week >= 5
    return table


def occupancy_window(table, n, rng):
    """Some columns of n successive minutes that vary, and a private fact."""
    begin = int(rng.integers(len(table) - n + 1))
    part = table.iloc[begin : begin + n]
    varying = [name for name in AIR if part[name].nunique() > 1]  # the light is off at night
    columns = rng.permutation(varying)[: rng.integers(1, len(varying) + 1)]
    fact = str(rng.choice(["office", "quarter", "weekend", "Occupancy"]))
    return part[list(columns)].reset_index(drop=True), part[fact].to_numpy()


def adult_rows(table, n, rng):
    part = table.iloc[rng.permutation(len(table))[:n]]
    fact = str(rng.choice(["sex", "race", "income"]))
    columns = [name for name in rng.permutation(ADULT)[: rng.integers(3, 12)] if name != fact]
    return part[columns].reset_index(drop=True), part[fact].to_numpy()


def shuffled(make):
    def draw(n, rng):
        readings, fact = make(n, rng)
        order = rng.permutation(n)
        return readings.iloc[order].reset_index(drop=True), fact[order]

    return draw


# --- Counting --------------------------------------------------------------------------------


def rows_of(rng):
    """Between 200 and 5,000, small tables as often as large ones."""
    return int(200 * 25 ** rng.random())


def count(name, draw, tables, seed, size=rows_of):
    alarms, in_runs, seconds = 0, 0, 0.0
    for k in range(tables):
        rng = np.random.default_rng([seed, k])
        readings, fact = draw(size(rng), rng)
        began = time.process_time()
        found = check_dependence(readings, [fact], seed=k)
        seconds += time.process_time() - began
        alarms += found.found
        in_runs += found.classes_in_runs
    print(line(name, tables, alarms, in_runs, seconds), flush=True)
    return tables, alarms


def line(name, tables, alarms, in_runs, seconds):
    low, high = interval(alarms, tables)
    each = 1000 * seconds / max(tables, 1)
    return (
        f"{name:34}{tables:7}{alarms:7}{alarms / max(tables, 1):9.2%}  ({low:.2%} to {high:.2%})"
        f"{in_runs:9}{each:8.0f} ms"
    )


def interval(hits, tries):
    low = beta.ppf(0.025, hits, tries - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, tries - hits) if hits < tries else 1.0
    return low, high


def total(name, parts):
    tables, alarms = (sum(column) for column in zip(*parts, strict=True))
    print(line(name, tables, alarms, 0, 0.0).rsplit(")", 1)[0] + ")\n")


def fixed(n):
    return lambda rng: n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000, help="in each of the two parts")
    parser.add_argument("--data", type=Path, default=os.environ.get("DISCREET_DATA"))
    options = parser.parse_args()
    folder = None if options.data is None else Path(options.data)
    print(f"{'':34}{'tables':>7}{'alarms':>7}{'share':>9}  {'95 %':18}{'in runs':>9}")
    real = {} if folder is None else real_tables(folder)
    each = max(1, options.tables // (len(MADE) + 2 * len(real)))
    parts = [count(f"shuffled: {make.__name__}", make, each, 1) for make in MADE]
    parts += [count(f"shuffled: {name}", shuffled(make), 2 * each, 2)
              for name, make in real.items()]  # fmt: skip
    total("independent, all", parts)
    each = max(1, options.tables // (2 * (len(SERIES) + len(real))))
    parts = [count(f"series: {make.__name__}, {n} rows", make, each, 3, fixed(n))
             for make in SERIES for n in (200, 5000)]  # fmt: skip
    total("made series, all", parts)
    if folder is not None:
        make = real["occupancy"]
        total("by minute, all", [count(f"by minute: {n} rows", make, each, 4, fixed(n))
                                 for n in (200, 1000, 5000)])  # fmt: skip


def real_tables(folder):
    occupancy = read_occupancy(folder)
    adult = pd.read_csv(folder / "adult.data.gz", names=ADULT, skipinitialspace=True)
    return {
        "occupancy": lambda n, rng: occupancy_window(occupancy, n, rng),
        "adult": lambda n, rng: adult_rows(adult, n, rng),
    }


if __name__ == "__main__":
    main()
