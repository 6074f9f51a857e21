"""Does the re-check keep its promise, and how soon does it notice?

    OMP_NUM_THREADS=1 python -m research.benchmarks.recheck [--lives 1000] [--picture delay.svg]

A site's life is labelled rows, with a look after every one. Quiet lives are the worst that the
promise is for: the true advantage is exactly the limit. Then it rises by 0.10. The worlds: the
private fact takes over some of the readings, so that no symbol becomes more or less frequent; the
public fact follows it; the paper's four sensors with tables that were learned, and facts whose
correlation rises; and tables with hardly any noise, so that a row tells no more than a symbol.
Below each stands what no procedure exceeds that keeps the promise: the power of the best test of
level 0.05 by 300 rows (Neyman and Pearson), which is told the law before, the law after and the
moment. What knows neither rule nor moment has to share the 0.05 among them. Below that, what a
bettor reaches who is told rule, size and moment, and stakes all on them: at a constant stake, and
boldly, for having 20 by the 300th row and nothing else. And lives that were quiet for long before.

Then other circumstances in the first world: classes that are rare, come and go or come in blocks;
symbols in the place of readings; a truth below the limit; rows that depend on one another, by day
as they should be given, and as if they did not.

Last, drift without labels: false alarms over quiet months, with and without weekends that differ,
and how many days pass until a jump of one sensor's share of symbols is noticed, as a picture.
"""

import argparse
import os
import time
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from discreet.auditing.recheck import (
    FALSE_PER_MONTH,
    FALSE_SHARE,
    REFERENCE_DAYS,
    Claim,
    begin,
    begin_watch,
    judge,
)
from discreet.auditing.recheck_bets import LabelledRows
from discreet.data.encoders import BinsEncoder
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities, weighted_outputs
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveFusion, Design, Fact
from discreet.plots import matplotlib_settings, rendered
from research.paper.synthetic import draw_readings
from research.paper_tables import tables_for_the_recheck

TODAY = date(2026, 1, 1)
LIMIT, RISE, LOOKED = 0.05, 0.10, 300
QUIET, MOST, LONG, SURE = 600, 1200, 3000, 0.95
SAMPLE = 400_000  # rows whose exact outputs tell the true advantage
TRIED = 10_000  # of the best test


# --- Worlds ----------------------------------------------------------------------------------


def made_mapping(tables, weights=(-1.0, 1.0)):
    names = [f"s{t}" for t in range(len(tables))]
    edges = [k + 0.5 for k in range(len(tables[0]) - 1)]
    design = Design(method="npo", parameters={}, rows=1, created="2026-01-01", discreet="0")
    return Mapping.create(
        names=names,
        encoders=[BinsEncoder(edges=edges)] * len(tables),
        tables=tables,
        public=Fact(name="fall", classes=[0, 1]),
        private=[Fact(name="who", classes=[0, 1])],
        fusion=AdditiveFusion(weights=[list(weights)] * len(tables)),
        design=design,
    )


def coins(rng, n, share):
    return (rng.random(n) < share).astype(np.int64)


class Takeover:
    """Sensors read the public fact; the private one takes over a share of the readings."""

    mapping = made_mapping([[[0.85, 0.15], [0.7, 0.3], [0.3, 0.7]]] * 4)

    def codes(self, rng, private, dial):
        public = coins(rng, len(private), 0.5)
        shape = (len(private), 4)
        told = np.where(rng.random(shape) < dial, private[:, None], public[:, None])
        return np.where(rng.random(shape) < 0.8, 2 * told, rng.integers(3, size=shape)), public


class Follows:
    """Three sensors read the public fact, which follows the private one more and more."""

    def __init__(self, kept):
        self.mapping = made_mapping([[[kept, 1 - kept], [1 - kept, kept]]] * 3)

    def codes(self, rng, private, dial):
        public = np.where(rng.random(len(private)) < dial, private, coins(rng, len(private), 0.5))
        wrong = rng.random((len(private), 3)) < 0.1
        return public[:, None] ^ wrong, public


class Learned:
    """The paper's four sensors and tables that were learned for a correlation of 0."""

    # Each sensor sends 0 wherever the public fact is 1, and elsewhere sometimes.
    mapping = made_mapping(tables_for_the_recheck(), weights=(1.0, -8.0))

    def codes(self, rng, private, dial):
        readings, h, g = draw_readings(4 * len(private) + 40, dial, rng)
        order = np.argsort(g, kind="stable")
        ones, zeros = order[g[order] == 1], order[g[order] == 0]
        rows = np.where(private == 1, ones[: len(private)], zeros[: len(private)])
        return readings[rows] - 1, h[rows]


def true_advantage(world, dial):
    private = np.arange(SAMPLE) % 2
    codes, _ = world.codes(np.random.default_rng(7), private, dial)
    weights = np.array([private == 0, private == 1]) / (SAMPLE / 2)
    return advantage(weighted_outputs(world.mapping.tables, codes, weights))


def dial_for(world, wanted):
    low, high = 0.0, 1.0
    for _ in range(18):
        middle = (low + high) / 2
        low, high = (middle, high) if true_advantage(world, middle) < wanted else (low, middle)
    return (low + high) / 2


# --- Lives -----------------------------------------------------------------------------------


def alternating(rng, n):
    return coins(rng, n, 0.5)


@dataclass(frozen=True)
class Life:
    """How rows come: ``labels`` draws classes; a day of ``day`` rows has one draw of readings."""

    world: object
    labels: object = alternating
    limit: float = LIMIT
    truth: float = LIMIT
    sent: bool = False
    day: int = 1
    grouped: bool = False
    dials: dict = field(default_factory=dict)

    def dial(self, wanted):
        if wanted not in self.dials:
            self.dials[wanted] = dial_for(self.world, wanted)
        return self.dials[wanted]

    def rows(self, rng, quiet, risen):
        private = self.labels(rng, quiet + risen)
        codes, public = [], []
        for part, truth in ((private[:quiet], self.truth), (private[quiet:], self.truth + RISE)):
            if len(part):
                drawn = self.world.codes(rng, part, self.dial(truth))
                codes.append(drawn[0])
                public.append(drawn[1])
        codes, public = np.concatenate(codes), np.concatenate(public)
        groups = np.arange(len(private)) // self.day
        if self.day > 1:  # rows of a day with the same class are one draw, repeated
            first = np.unique(2 * groups + private, return_index=True, return_inverse=True)
            codes, public = codes[first[1]][first[2]], public[first[1]][first[2]]
        if self.sent:
            codes = self.world.mapping.sample(codes, rng)
        return LabelledRows(codes, public, [private], groups if self.grouped else None, self.sent)

    def withdrawn_after(self, seed, quiet, risen):
        """Return the rows until the certificate is withdrawn, or None."""
        found = begin(self.world.mapping, [Claim(fact=self.fact, limit=self.limit)], TODAY)
        rows = self.rows(np.random.default_rng(seed), quiet, risen)
        judge(found, self.world.mapping, rows, TODAY)
        return None if found.withdrawn is None else found.rows

    @property
    def fact(self):
        return self.world.mapping.private[0].name


def verdict(kept):
    return "PASS" if kept else "MISSED"


def noticed(life, lives, quiet):
    """Return how many rows after the rise lives end, if they were quiet until then."""
    ends = [life.withdrawn_after([seed, 1], quiet, MOST) for seed in range(lives)]
    late = np.array([np.inf if end is None else end - quiet for end in ends])
    return np.sort(late[late > 0])


def show(name, life, lives, *, promised=True, aimed=False):
    """Print a line; the promise is about false withdrawals, the aim about being in time."""
    ends = [life.withdrawn_after([seed, 0], QUIET, 0) for seed in range(lives)]
    false, cells, found = np.mean([end is not None for end in ends]), "", []
    for quiet in (0, LOOKED):
        late = noticed(life, lives, quiet)
        found.append(np.mean(late <= LOOKED))
        cells += f"{found[-1]:9.3f}{late[len(late) // 2]:6.0f}{late[int(SURE * len(late))]:6.0f}"
    told = f"  promise {verdict(false <= FALSE_SHARE)}" if promised else "  no promise"
    told += f", aim {verdict(min(found) >= SURE)}" if aimed else ""
    print(f"{name:46}{false:6.3f}{cells}{told}", flush=True)


def heading(first):
    """Return what stands above the columns of ``show``."""
    late = f"{f'by {LOOKED}':>9}{'50 %':>6}{'95 %':>6}"
    return (
        f"{'':46}{'quiet':>6}{'+0.10 at the first row':>21}{'after 300 quiet rows':>21}\n"
        f"{first:46}{'false':>6}{late}{late}"
    )


def best_test(world):
    """Return how often the best test of level 0.05 finds the rise by 300 rows, both laws known."""
    rng, life, sizes = np.random.default_rng(5), Life(world), [len(t) for t in world.mapping.tables]
    private = np.arange(SAMPLE) % 2
    laws = [life.dial(LIMIT), life.dial(LIMIT + RISE)]
    cells, counts = [], []
    for dial in laws:
        codes, _ = world.codes(rng, private, dial)
        cells.append(2 * np.ravel_multi_index(tuple(codes.T), sizes) + private)
        counts.append(np.bincount(cells[-1], minlength=2 * int(np.prod(sizes))) + 0.5)
    ratio = np.log(counts[1] / counts[0])
    quiet, risen = (
        ratio[each[rng.integers(SAMPLE, size=(TRIED, LOOKED))]].sum(axis=1) for each in cells
    )
    return np.mean(risen > np.quantile(quiet, 1 - FALSE_SHARE))


def told_bettors(world):
    """Return how often bettors are in time who are told the rule, the rise and the moment."""
    rng, life, n = np.random.default_rng(6), Life(world), TRIED // 2
    private = np.arange(SAMPLE) % 2
    codes, _ = world.codes(rng, private, life.dial(LIMIT + RISE))
    sent = output_probabilities(world.mapping.tables, codes)
    guess = (sent * np.where(private, 1.0, -1.0)[:, None]).sum(axis=0) > 0
    ones = sent[:, guess].sum(axis=1)
    right = [1.0 - ones[private == 0], ones[private == 1]]
    # 300 rows with classes as coins: as many sittings as the rarer class has rows
    held = np.minimum(*(each := rng.binomial(LOOKED, 0.5, n), LOOKED - each))
    gains = sum(each[rng.integers(len(each), size=(n, held.max()))] for each in right) / 2
    payoff = np.where(np.arange(held.max()) < held[:, None], gains - 0.5 - LIMIT, 0.0)
    spread = payoff[:, : held.min()].std()
    constant, bold = np.ones(n), np.ones(n)
    reached = np.zeros((2, n), dtype=bool)
    for t in range(held.max()):
        constant *= 1.0 + 0.7 * RISE / (spread**2 + RISE**2) * payoff[:, t]
        chance = np.clip(FALSE_SHARE * bold, 1e-9, 1.0 - 1e-9)
        left = max(held.min() - t, 1)
        stake = norm.pdf(norm.ppf(chance)) / (chance * spread * np.sqrt(left))
        bold *= 1.0 + np.minimum(stake, 0.95 / (0.5 + LIMIT)) * payoff[:, t]
        reached |= np.array([constant, bold]) >= 1.0 / FALSE_SHARE
    return reached.mean(axis=1)


def worlds(lives):
    print(f"{lives} lives each; false: withdrawn in {QUIET} quiet rows, promised {FALSE_SHARE}; "
          f"aim: {SURE} are after {LOOKED} rows; rows until half and 95 % are")  # fmt: skip
    print(heading("limit = truth = 0.05"))
    for name, world in (
        ("readings taken over", Takeover()),
        ("public fact follows, noise 0.2", Follows(0.8)),
        ("paper's sensors, learned tables", Learned()),
        ("public fact follows, noise 0.01", Follows(0.99)),
    ):
        show(name, Life(world), lives, aimed=True)
        print(f"{'  no procedure finds more':52}{best_test(world):9.3f}", flush=True)
        constant, bold = told_bettors(world)
        print(f"{'  bettors told rule, size and moment':52}{constant:9.3f}, boldly {bold:.3f}")
        late = noticed(Life(world), max(1, lives // 5), LONG)
        print(f"{f'  after {LONG} quiet rows':52}{np.mean(late <= LOOKED):9.3f}", flush=True)


def circumstances(lives):
    print()
    print(heading(f"readings taken over, {lives} lives each"))

    def rare(rng, n):
        return coins(rng, n, 0.15)

    def come_and_go(rng, n):
        return coins(rng, n, np.where(np.arange(n) // 50 % 2, 0.9, 0.1))

    def blocks(rng, n):
        return np.arange(n) // 60 % 2

    base = Life(Takeover())
    for name, life in (
        ("one class has a share of 0.15", replace(base, labels=rare)),
        ("shares of 0.1 and 0.9 in turn, every 50 rows", replace(base, labels=come_and_go)),
        ("classes in blocks of 60 rows", replace(base, labels=blocks)),
        ("symbols in the place of readings", replace(base, sent=True)),
        ("truth 0.03, rises to 0.13", replace(base, truth=0.03)),
        ("days of 6 rows, grouped", replace(base, day=6, grouped=True)),
    ):
        show(name, life, lives)
    show("days of 6 rows, not grouped", replace(base, day=6), lives, promised=False)


# --- Drift without labels --------------------------------------------------------------------


ROUNDS, SENSORS = 288, 4
JUMPS = (0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
BEFORE, AFTER = 60, 60


def day_counts(rng, jump, weekend):
    """Return a day's symbols: somebody comes and goes, more by day, and more on some days."""
    level = 0.5 + 0.25 * np.sin(np.arange(ROUNDS) / ROUNDS * 2 * np.pi)
    level = level + 0.08 * rng.normal() + (0.15 if weekend else 0.0)
    changes = rng.random(ROUNDS) < 0.05
    changes[0] = True
    latest = np.maximum.accumulate(np.where(changes, np.arange(ROUNDS), 0))
    somebody = (rng.random(ROUNDS) < level)[latest]
    chance = np.repeat(0.2 + 0.5 * somebody[:, None], SENSORS, axis=1)
    chance[:, 0] += jump
    ones = (rng.random(chance.shape) < chance).sum(axis=0).tolist()
    return [(ROUNDS - one, one) for one in ones]


def alarmed_after(seed, days, jump_at=None, jump=0.0, weekends=False):
    """Return the day of the alarm, counted from the end of the reference, or None."""
    rng, watch = np.random.default_rng(seed), begin_watch("")
    for k in range(REFERENCE_DAYS + days):
        risen = jump if jump_at is not None and k >= REFERENCE_DAYS + jump_at else 0.0
        watch.add(TODAY + timedelta(k), day_counts(rng, risen, weekends and k % 7 >= 5))
        if watch.alarmed is not None:
            return k - REFERENCE_DAYS + 1
    return None


def unlabelled(lives, picture):
    print(f"\nwithout labels: {lives} months after {REFERENCE_DAYS} days of reference")
    for name, weekends in (("days alike", False), ("weekends that differ", True)):
        rate = np.mean([alarmed_after([s, 2], 30, weekends=weekends) is not None
                        for s in range(lives)])  # fmt: skip
        print(f"  {name:24} false alarms {rate:.4f} a month, promised {FALSE_PER_MONTH}: "
              f"{verdict(rate <= FALSE_PER_MONTH)}", flush=True)  # fmt: skip
    quiet = [day_counts(np.random.default_rng(s), 0.0, False)[0][1] / ROUNDS for s in range(200)]
    print(f"  a sensor's share of symbols has a standard deviation of {np.std(quiet):.3f} by day")
    print(f"  jump of one share after {BEFORE} days: days until the alarm, of {lives // 10} lives")
    delays = []
    for jump in JUMPS:
        found = [alarmed_after([s, 3], BEFORE + AFTER, BEFORE, jump) for s in range(lives // 10)]
        late = [np.inf if end is None else end - BEFORE for end in found]
        late = [each for each in late if each > 0]
        quarters = [float(np.sort(late)[int(q * (len(late) - 1))]) for q in (0.1, 0.5, 0.9)]
        delays.append(quarters)
        print(f"    {jump:5.3f}  10 %, 50 %, 90 %: {quarters}", flush=True)
    if picture is not None:
        picture.write_bytes(draw(np.array(delays), picture))


def draw(delays, path):
    with matplotlib_settings("delay"):
        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.subplots()
        shown = np.minimum(delays, AFTER)
        axes.fill_between(JUMPS, shown[:, 0], shown[:, 2], alpha=0.25, linewidth=0)
        axes.plot(JUMPS, shown[:, 1], marker="o")
        axes.set_xlabel("jump of one sensor's share of symbols")
        axes.set_ylabel("days until the alarm: median, 10 to 90 %")
        axes.set_ylim(0, AFTER)
        ticks = range(0, AFTER, 10)
        axes.set_yticks([*ticks, AFTER], [*map(str, ticks), "later"])
        return rendered(figure, path, 150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="delay against size, SVG or PNG"
    )
    given = parser.parse_args()
    began = time.process_time()
    worlds(given.lives)
    circumstances(max(1, given.lives // 5))
    unlabelled(given.lives, given.picture)
    print(f"\n{time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main()
