"""How often drift is noticed: by symbols against their tables, and by 200 labelled rows.

    python -m research.benchmarks.network.drift [--trials 100] [--rows 200]

Before, what the sensors read depends on the public fact only. Then the private fact takes over a
share of the readings: every code and every symbol stays as frequent as it was, but the leak rises
far above its certificate. Both checks are those that the dashboard shows.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from support.dashboards import make_mapping

from discreet import audit
from discreet.auditing.recheck import Claim, begin, judge
from discreet.auditing.recheck_bets import LabelledRows
from discreet.network.dashboard.sensors import Sent, check_marginals

SENSORS = ("hall", "kitchen", "bedroom", "stairs")
MAPPING = make_mapping(SENSORS)
SHARES = (0.0, 0.4, 0.7)  # of the readings that follow the private fact
MESSAGES = 2000
MOST_FALSE, LEAST_FOUND = 0.05, 0.95
WANTED = {0.0: lambda rate: rate <= MOST_FALSE, 0.7: lambda rate: rate >= LEAST_FOUND}


def draw(rng, n, share):
    """Return readings, public and private fact. Codes are as frequent whatever the share."""
    fall, bob = rng.integers(2, size=(2, n))
    follows = rng.random((n, len(SENSORS))) < share
    told = np.where(follows, bob[:, None], fall[:, None])
    sharp = rng.random((n, len(SENSORS))) < 0.8
    codes = np.where(sharp, 2 * told, rng.integers(3, size=(n, len(SENSORS))))
    who = np.where(bob == 1, "bob", "ann")
    return pd.DataFrame(codes, columns=list(SENSORS)), fall == 1, who


def audited(rng, n, share):
    X, fall, who = draw(rng, n, share)
    return audit(MAPPING, X, fall, private=who, random_state=int(rng.integers(2**31))).private[0]


def withdrawn(rng, n, share, bound, today):
    """Whether labelled rows end a certificate."""
    X, fall, who = draw(rng, n, share)
    found = begin(MAPPING, [Claim(fact="who", limit=bound)], today)
    rows = LabelledRows(MAPPING.encode(X), fall.astype(int), [(who == "bob").astype(int)])
    judge(found, MAPPING, rows, today)
    return found.withdrawn is not None


def symbols_alarm(rng, share):
    """Whether the symbols of a day leave what the tables allow; every message is a fresh draw."""
    X, _, _ = draw(rng, MESSAGES, share)
    drawn = MAPPING.transform(X, rng).astype(np.uint8)
    cost, rows = 1.0, 3
    sent = Sent("gateway", SENSORS, tuple(map(bytes, drawn)), cost * rows * MESSAGES, cost)
    return bool(check_marginals(MAPPING, [sent]).outside)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--trials", type=int, default=100, metavar="N")
    options.add_argument("--rows", type=int, default=200, metavar="N", help="with labels")
    given = options.parse_args()
    today = datetime.now(UTC).date()
    bound = audited(np.random.default_rng(0), 4000, 0.0).certificate("advantage").bound
    print(f"certified on 4000 rows: advantage at most {bound:.3f}")
    table = Table("readings that follow the private fact", "leak", "symbols", "labelled rows", "")
    missed = False
    for share in SHARES:
        noticed = np.zeros(2)
        for trial in range(given.trials):
            rng = np.random.default_rng([trial, int(100 * share)])
            ended = withdrawn(rng, given.rows, share, bound, today)
            noticed += symbols_alarm(rng, share), ended
        rates = noticed / given.trials
        verdict = ("MISSED", "PASS")[bool(WANTED[share](rates[1]))] if share in WANTED else ""
        missed |= verdict == "MISSED"
        leak = audited(np.random.default_rng(1), 4000, share).figures.advantage
        cells = (f"{share:.0%}", f"{leak:.3f}", *(f"{rate:.2f}" for rate in rates))
        table.add_row(*cells, verdict)
    Console(width=110).print(table)
    print(f"share of {given.trials} trials with an alarm; {given.rows} labelled rows in each")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
