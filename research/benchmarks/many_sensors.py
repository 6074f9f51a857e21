"""What is certified for many sensors without listing outputs, does it hold, and when does it win?

    python -m research.benchmarks.many_sensors [--trials 300] [--only NAME]

The first table draws worlds of known truth again and again: how often the kernel's bound on
any attacker's advantage held (95 % is promised), how often the bound on the distance of the
embeddings held, which has no slack of its own, then the median bound with all of alpha and
with half of it, and the truth. The second puts the kernel beside listed outputs, for sensors
that keep a bit with a given probability: as `certify_advantage` has it, and with the variance
of the best set taken from the kernel (`set_variance`). The third is the cost of the largest
case.
"""

import argparse
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from support.sensor_worlds import alike, hidden, kernel_advantage, telling_homes

from discreet.auditing.bounds.certificates import certify_advantage
from discreet.auditing.bounds.deviations import VARIANCE_SHARE, kernel_parts
from discreet.auditing.bounds.kernel_rows import set_variance

ALPHA = 0.05


def settings():
    return [
        alike("40 keep 0.55", 40, 0.55, 0.03, (1000, 1000)),
        alike("40 keep 0.55, no leak", 40, 0.55, 0.0, (1000, 1000)),
        alike("30 keep 0.6", 30, 0.6, 0.03, (1000, 1000)),
        alike("30 keep 0.6, 10 % ones", 30, 0.6, 0.02, (1000, 1000), share=0.1),
        alike("40 keep 0.55, 1 in 20", 40, 0.55, 0.03, (760, 40)),
        alike("10 keep 0.98", 10, 0.98, 0.0, (300, 300)),
        hidden("8, dependent, 3 classes", (2, 3, 2, 2, 3, 2, 2, 2), 0.8, 0.3, (300, 150, 50), 3),
        hidden("12, dependent", (2,) * 12, 0.9, 0.3, (300, 300), seed=2),
        hidden("200 homes of 10", (2,) * 10, 0.8, 0.2, (200,), home=10, seed=3),
        hidden("60 homes of 5, 3 classes", (2, 3, 2), 0.6, 0.3, (60,), 3, home=5),
        telling_homes("100 homes, 1 % tell", 10, 0.6, 0.01, 100, 20),
        telling_homes("100 homes, 5 % tell", 10, 0.6, 0.05, 100, 20),
        alike("150 homes of 4, 40 keep 0.55", 40, 0.55, 0.03, (150,), home=4),
        replace(hidden("rows of 300 homes of 5", (2,) * 8, 0.9, 0.3, (300,), home=5), capped=True),
    ]


def cover(world, trials):
    rng, found = np.random.default_rng(1), []
    for trial in range(trials):
        rows = world.draw(rng, trial)
        every = tuple(range(rows.audited.n_classes))
        slack = sum(kernel_parts(rows, every, ALPHA)) - world.distance(rows)
        found.append((slack, kernel_advantage(rows, ALPHA), kernel_advantage(rows, ALPHA / 2)))
    slack, bounds, halved = np.array(found).T
    truth = world.advantage()
    print(f"{world.name:30}{np.mean(bounds >= truth):8.3f}{np.mean(slack >= 0):10.3f}"
          f"{np.median(bounds):9.4f}{np.median(halved):9.4f}{truth:9.4f}", flush=True)  # fmt: skip


def listed(rows):
    """Return the bound from listed outputs, with variances of the kernel if they are smaller."""
    listing = rows.audited
    eta, counts = listing.eta, np.array(listing.counts)
    share = VARIANCE_SHARE * ALPHA / 4  # for two classes and two ways to bound a variance
    variances = np.array([set_variance(rows, k, eta, share) for k in range(2)])
    exponent = np.log(1 / ((1 - VARIANCE_SHARE) * ALPHA))
    step = eta / counts.min() * exponent / 3
    strayed = step + np.sqrt(step**2 + 2 * exponent * np.sum(variances / counts))
    distance = 0.5 * np.abs(listing.average[0] - listing.average[1]).sum()
    today = certify_advantage(listing, ALPHA).bound
    today = 0.5 if today is None else today
    return today, min(today, 0.5 * (distance + strayed))


def compare(n, sensors, keep):
    rng, found = np.random.default_rng(2), []
    for trial in range(3):
        rows = alike("", sensors, keep, 0.03, (n, n)).draw(rng, trial)
        found.append((kernel_advantage(rows, ALPHA), *listed(rows)))
    print(f"{2 * n:8}{sensors:9}{keep:7}" + "".join(f"{x:10.4f}" for x in np.median(found, axis=0)),
          flush=True)  # fmt: skip


def cost():
    rows = alike("", 40, 0.55, 0.03, (50_000, 50_000)).draw(np.random.default_rng(0))
    began = time.process_time()
    bound = kernel_advantage(rows, ALPHA)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n100000 rows, 40 sensors: {bound:.4f} from {rows.left_out}; "
          f"{seconds:.1f} s of processor, peak of the process {peak:.0f} MB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--only", default=None, help="worlds whose name has this; no more")
    chosen = parser.parse_args()
    print(f"{'':30}{'holds':>8}{'distance':>10}{'median':>9}{'halved':>9}{'truth':>9}")
    for world in settings():
        if (chosen.only or "") in world.name:
            cover(world, chosen.trials)
    if chosen.only is not None:
        return
    print(f"\n{'rows':>8}{'sensors':>9}{'keep':>7}{'kernel':>10}{'listed':>10}{'sharper':>10}")
    for n in (1000, 5000):
        for sensors in (5, 10, 14):
            for keep in (0.55, 0.6, 0.7, 0.8, 0.9, 0.98):
                compare(n, sensors, keep)
    cost()


if __name__ == "__main__":
    main()
