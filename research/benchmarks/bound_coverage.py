"""Do the certificates hold as often as they promise, and how tight are they?

    python -m research.benchmarks.bound_coverage [--trials 300] [--only NAME] [--against DIR] \
        [--data DIR]

Every world is one whose leak is known exactly (tests/support/bound_worlds): rows are drawn, audited
and compared with the truth. Printed for each certificate: how often it held (95 % is promised; what
is not certifiable counts as holding), how often there was a bound at all and one that says more
than the tables alone, its median and the truth. A world passes if each certificate holds in at
least 95 % of the trials, less two standard errors; the exit code is 1 if some world does not.

Then how tight the bounds are: the pairwise epsilon beside plainer ways to bound it; all bounds
of independent rows divided by those of another checkout of this project, on the same rows; and
upper bound ÷ truth on Adult (adult.data in the folder of --data, or in that of DISCREET_DATA).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from support.bound_worlds.adult import adult_population
from support.bound_worlds.homes import capped_worlds, home_worlds
from support.bound_worlds.plainer import PLAINER, plainer
from support.bound_worlds.rows import row_worlds
from support.bound_worlds.trials import ALPHA, try_world
from support.network_figures.verdicts import verdict

from discreet.auditing.bounds.over_time import certify_structure

PARTS = {
    "independent rows": row_worlds,
    "groups, a home drawn at random": home_worlds,
    "groups, a row drawn at random with a cap": capped_worlds,
}
LOOSER = 1.05  # times the bound of the other checkout, from which on it is marked
SAME_ROWS = 50  # draws that the other checkout audits too
ADULT_TRIALS, ADULT_TARGET = 50, 1.3


def main() -> int:
    options = parse()
    if options.medians is not None:
        print(json.dumps(medians(options.medians, options.trials)))
        return 0
    began = time.process_time()
    missed = [name for title, worlds in PARTS.items() for name in cover(title, worlds(), options)]
    title = next(iter(PARTS))
    chosen = [world for world in row_worlds() if options.only in f"{title}: {world.name}"]
    beside_plainer(chosen)
    if options.against is not None:
        beside(options.against, chosen, min(options.trials, SAME_ROWS))
    on_adult(options.data or os.environ.get("DISCREET_DATA"))
    print(f"\n{time.process_time() - began:.0f} s of processor time, {options.trials} trials each")
    print(f"coverage: {verdict(not missed)}" + "".join(f"\n  {name}" for name in missed))
    return bool(missed)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=300, metavar="N")
    parser.add_argument("--only", default="", metavar="NAME", help="such as 'rows: 2 outputs'")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder that has adult.data")
    parser.add_argument("--medians", help=argparse.SUPPRESS)  # what the other checkout is asked
    return parser.parse_args()


# --- Do they hold? --------------------------------------------------------------------------


def cover(title, worlds, options):
    """Try these worlds and print a table; return the names of those that failed."""
    head = f"{'holds':>8}{'± 2 se':>8}{'exists':>8}{'by rows':>9}{'median':>9}{'truth':>9}"
    print(f"\n{title:50}{'certificate':26}{head}")
    failed = []
    for world in worlds:
        if options.only in f"{title}: {world.name}":
            found = try_world(world, options.trials)
            print_world(world.name, found)
            failed += [f"{world.name}: {name} held in {each.holds:.3f}"
                       for name, each in found.items() if not each.good]  # fmt: skip
    return failed


def print_world(name, found):
    for k, (certificate, each) in enumerate(found.items()):
        figures = f"{each.holds:8.3f}{each.two_errors:8.3f}{each.exists:8.2f}{each.informs:9.2f}"
        print(f"{'' if k else name:50}{certificate:26}{figures}{show(each.median)}"
              f"{show(each.truth)}{'' if each.good else '  MISSED'}")  # fmt: skip
    least = min(each.holds for each in found.values())
    good = verdict(all(each.good for each in found.values()))
    print(f"{'':50}{good}: each holds in {least:.3f} or more, {1 - ALPHA:.2f} promised", flush=True)


def show(value):
    return f"{'none':>9}" if np.isinf(value) else f"{value:9.4f}"


# --- How tight are they? --------------------------------------------------------------------


def beside_plainer(worlds, trials=30):
    """Print the median bound on the pairwise epsilon beside those of plainer ways."""
    names = [*PLAINER, "adopted", "tables", "truth"]
    print(f"\n{'pairwise epsilon, median':32}" + "".join(f"{name:>9}" for name in names))
    for world in worlds:
        rng = np.random.default_rng(1)
        others = np.median([plainer(world.draw(rng), rng) for _ in range(trials)], axis=0)
        adopted = try_world(world, trials, only=["pairwise epsilon"])
        tables = certify_structure(world.tables).total.bound
        values = [*others, *(each.median for each in adopted.values())]
        values += [np.inf if tables is None else tables, world.law.truths["pairwise epsilon"]]
        print(f"{world.name:32}" + "".join(map(show, values)), flush=True)


def medians(name, trials):
    """The median of every bound in one world of independent rows."""
    world = next(world for world in row_worlds() if world.name == name)
    found = try_world(world, trials)
    return {which: found[which].median for which in world.law.truths if which in found}


def beside(checkout, worlds, trials):
    """Print the bounds divided by those of another checkout, world by world in turn."""
    print(
        f"\n{'median bound here ÷ there':32}{'certificate':26}{'here':>9}{'there':>9}{'ratio':>9}"
    )
    for world in worlds:
        here, there = (ask(path, world.name, trials) for path in (own_root(), checkout))
        for k, name in enumerate(here):
            ratio = here[name] / there[name] if here[name] != there[name] else 1.0
            print(f"{'' if k else world.name:32}{name:26}{show(here[name])}{show(there[name])}"
                  f"{ratio:9.3f}{'  LOOSER' if ratio > LOOSER else ''}", flush=True)  # fmt: skip


def own_root():
    import discreet

    return Path(discreet.__file__).parents[2]


def ask(checkout, name, trials):
    """Run this script on the package of a checkout; it prints the medians of one world."""
    source = checkout / "src"
    if not (source / "discreet").is_dir():
        raise SystemExit(f"{source}: has no package discreet. Give the root of a checkout.")
    command = [sys.executable, "-m", "research.benchmarks.bound_coverage",
               "--medians", name, "--trials", str(trials)]  # fmt: skip
    found = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True,
                           capture_output=True, text=True)  # fmt: skip
    return json.loads(found.stdout)


def on_adult(folder):
    """Print upper bound ÷ truth on rows drawn from Adult."""
    if folder is None:
        print("\nAdult: not run. Name the folder of adult.data by --data or DISCREET_DATA.")
        return
    for decide in ("likely", "balanced"):
        on_population(adult_population(folder, decide))


def on_population(population):
    found = try_world(population, ADULT_TRIALS)
    print(f"\n{population.name:32}{'holds':>9}{'median':>9}{'truth':>9}{'ratio':>9}")
    for name, each in found.items():
        ratio = each.median / each.truth if each.truth else np.inf
        print(f"{name:32}{each.holds:9.3f}{show(each.median)}{show(each.truth)}{ratio:9.3f}")
    reached = found["advantage"].median <= ADULT_TARGET * found["advantage"].truth
    print(f"advantage at most {ADULT_TARGET} times the truth: {verdict(reached)}")


if __name__ == "__main__":
    sys.exit(main())
