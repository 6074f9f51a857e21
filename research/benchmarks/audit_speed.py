"""How much processor time and memory an audit takes: 100,000 rows of 16 binary sensors.

    python -m research.benchmarks.audit_speed [--against OTHER_CHECKOUT] [--rows 100000] \
        [--rounds 3]

The whole audit, in a fresh process: certificates over all 2^16 outputs and every attacker on
symbols and on readings, for a private and a public fact. Printed are medians over the rounds:
processor seconds (user and system) of the whole process, imports included, those of the audit
alone, and the peak memory. With another checkout the two take turns, and the ratio is printed
beside the bounds that each of them found.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
CODES = 4  # of each sensor


def made_up(rows: int, sensors: int, seed: int):
    """Return a mapping made of plain tables, and rows that it has not seen.

    Every sensor reads a little of the public fact; the private one shows in the first sensor
    and in whether the next two agree.
    """
    import numpy as np
    import pandas as pd

    from discreet import Mapping

    try:
        from discreet.data.encoders import CodesEncoder
        from discreet.mapping.parts import AdditiveFusion, Design, Fact
    except ImportError:  # another checkout may be from before these folders
        from discreet.codes import CodesEncoder
        from discreet.mapping_parts import AdditiveFusion, Design, Fact

    rng = np.random.default_rng(seed)
    public, private = rng.integers(2, size=(2, rows))
    codes = rng.binomial(CODES - 1, (0.35 + 0.3 * public)[:, None], (rows, sensors))
    codes[:, 0] = np.where(rng.random(rows) < 0.3, (CODES - 1) * private, codes[:, 0])
    codes[:, 2] = np.where(rng.random(rows) < 0.3, codes[:, 1] ^ private, codes[:, 2])
    names = [f"s{t}" for t in range(sensors)]
    sent = np.linspace(0.2, 0.8, CODES) + rng.uniform(-0.05, 0.05, (sensors, CODES))
    mapping = Mapping.create(
        names=names,
        encoders=[CodesEncoder(size=CODES)] * sensors,
        tables=[np.stack([1 - ones, ones], axis=1) for ones in sent],
        public=Fact(name="public", classes=(0, 1)),
        private=[Fact(name="private", classes=(0, 1))],
        fusion=AdditiveFusion(weights=((-0.5, 0.5),) * sensors, bias=0.0),
        design=Design(method="made-up", rows=0, created="", discreet=""),
    )
    return mapping, pd.DataFrame(codes, columns=names), public, private


def run_once(rows: int, sensors: int) -> None:
    """Audit once and print what was found: the work of the process that is measured."""
    from discreet import audit

    mapping, X, public, private = made_up(rows, sensors, 0)
    begin = time.process_time()
    found = audit(mapping, X, public, private=private)
    seconds = time.process_time() - begin
    fact = found.private[0]
    bounds = {each.name: each.bound for each in fact.certificates}
    bounds["best attack, at least"] = fact.attacks.best.lower
    bounds["best attack on readings, at least"] = fact.attacks.best_on_readings.lower
    print(json.dumps({"audit": seconds, "bounds": bounds}))


def measure(checkout: Path, rows: int, sensors: int) -> dict:
    """Run a fresh process on the package of a checkout; seconds and gigabytes of that process."""
    command = [sys.executable, __file__, "--once", f"--rows={rows}", f"--sensors={sensors}"]
    settings = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=settings, text=True) as child:
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"the audit of {checkout} ended with {child.returncode}")
    unit = 2**30 if sys.platform == "darwin" else 2**20
    resources = {"process": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / unit}
    return json.loads(said) | resources


def show(name: str, runs: list[dict]) -> None:
    medians = {key: statistics.median(run[key] for run in runs) for key in ("process", "audit")}
    peak = max(run["memory"] for run in runs)
    print(
        f"{name}: {medians['process']:.2f} s of processor time, {medians['audit']:.2f} s of it "
        f"the audit itself; peak memory {peak:.2f} GB",
        flush=True,
    )


def compare(ours: list[dict], theirs: list[dict]) -> None:
    """Print both ratios, and the bounds of both."""
    for key, what in (("process", "whole process"), ("audit", "audit alone")):
        ratio = statistics.median(a[key] / b[key] for a, b in zip(ours, theirs, strict=True))
        print(f"{what}: {ratio:.3f} times the processor time of the other (median of the rounds)")
    for name, bound in ours[0]["bounds"].items():
        print(f"  {name}: {bound}, the other {theirs[0]['bounds'].get(name)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sensors", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        run_once(given.rows, given.sensors)
        return
    checkouts = [HERE] + ([given.against.resolve()] if given.against else [])
    runs = {each: [] for each in checkouts}
    for _ in range(given.rounds):
        for each in checkouts:
            runs[each].append(measure(each, given.rows, given.sensors))
    print(f"{given.rows} rows x {given.sensors} binary sensors of {CODES} codes")
    for name, each in zip(("this checkout", "the other"), checkouts, strict=False):
        show(name, runs[each])
    if given.against:
        compare(*runs.values())


if __name__ == "__main__":
    main()
