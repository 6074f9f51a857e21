"""Do the certificates hold as often as they promise, and how tight are they?

    python benchmarks/bound_coverage.py [--trials 200] [--only NAME]

Every setting is a small world whose output distributions are known exactly: a hidden state
that depends on the private class drives all sensors at once, so that their codes depend on
one another. Rows are drawn, audited and compared with the truth. The first table says for
each certificate how often it held (95 % is promised), how often there was one at all, its
median and the truth; a bound that is not certifiable counts as holding. The second compares
the epsilon bound with plainer ones on the same rows:

* kl: Chernoff for each class and output, with a union over both (the textbook way)
* kl, one: the same without the union over outputs, which the largest ratio does not need
* symbols: Clopper-Pearson on one drawn symbol per row, with the union
"""

import argparse
import os
import time
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from discreet.auditing.certificates import (
    certify_accuracy,
    certify_advantage,
    certify_structure,
    certify_total_variation,
)
from discreet.auditing.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.auditing.outputs_given import AuditRows, smallest_and_largest
from discreet.auditing.pointwise import PointwiseAudit
from discreet.exact import (
    advantage,
    bayes_error,
    epsilon_beyond,
    information_epsilon,
    pairwise_epsilon,
    total_variation,
)

ALPHA = 0.05
DELTA = 0.02


@dataclass(frozen=True)
class World:
    """p(class), p(state|class), p(code|state) for each sensor, and the tables."""

    name: str
    prior: np.ndarray
    states: np.ndarray
    codes: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    rows: int  # per class, or in all if the classes are drawn too
    fixed: bool = True  # whether classes have fixed numbers of rows
    group: int = 1  # rows of a group share their hidden state

    def given(self):
        outputs = np.ones((self.states.shape[1], 1))
        for code, table in zip(self.codes, self.tables, strict=True):
            outputs = (outputs[:, :, None] * (code @ table)[:, None, :]).reshape(len(outputs), -1)
        return self.states @ outputs

    def draw(self, rng):
        m = len(self.prior)
        n_groups = self.rows // self.group
        if self.fixed:
            index = np.repeat(np.arange(m), n_groups)
        else:
            index = rng.choice(m, n_groups, p=self.prior)
        state = pick(self.states, index, rng).repeat(self.group)
        index = index.repeat(self.group)
        codes = np.stack([pick(code, state, rng) for code in self.codes], axis=1)
        groups = np.arange(len(index)) // self.group if self.group > 1 else None
        return AuditRows(self.tables, codes, index, m, groups)


def pick(table, rows, rng):
    return (rng.random(len(rows))[:, None] > np.cumsum(table, axis=1)[rows, :-1]).sum(axis=1)


def whole(table):
    """Round a table to weights over 2**32, as a mapping file would hold it."""
    weights = np.floor(table * 2**32)
    weights[:, 0] += 2**32 - weights.sum(axis=1)
    return weights / 2**32


def world(name, *, symbols, rows, classes=2, leak=0.1, n_codes=5, noise=2.0, seed=0, **more):
    """Make a world with 6 hidden states; ``leak`` moves the classes apart."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.ones(6) * 2)
    own = rng.dirichlet(np.ones(6), size=classes)
    states = (1 - leak) * common + leak * own
    codes = tuple(rng.dirichlet(np.ones(n_codes) * 0.5, size=6) for _ in symbols)
    tables = tuple(whole(rng.dirichlet(np.ones(z) * noise, size=n_codes)) for z in symbols)
    prior = np.asarray(more.pop("prior", np.full(classes, 1 / classes)))
    return World(name, prior, states, codes, tables, rows, **more)


def rare_leak(name, rows):
    """One code in 500, of one class only, gives the class away threefold."""
    tables = (whole(np.array([[0.999, 0.001], [0.5, 0.5], [1e-6, 1 - 1e-6]])),)
    codes = (np.eye(3),)
    states = np.array([[0.998, 0.0, 0.002], [1.0, 0.0, 0.0]])
    return World(name, np.array([0.5, 0.5]), states, codes, tables, rows)


def plain_coin(name, rows):
    """Two codes, sent nearly as they are read: hardly any noise to hide behind."""
    tables = (whole(np.array([[0.99, 0.01], [0.01, 0.99]])),)
    states = np.array([[0.7, 0.3], [0.4, 0.6]])
    return World(name, np.array([0.5, 0.5]), states, (np.eye(2),), tables, rows)


def settings():
    return [
        plain_coin("2 outputs, strong leak", 100),
        rare_leak("2 outputs, rare leak", 500),
        world("4 outputs, no leak", symbols=(2, 2), rows=80, leak=0.0),
        world("8 outputs, leaky", symbols=(2, 2, 2), rows=300, leak=0.9, noise=0.5, seed=3),
        world("12 outputs, 3 classes", symbols=(2, 3, 2), rows=1000, classes=3),
        world("16 outputs", symbols=(2,) * 4, rows=10_000, leak=0.05),
        world("27 outputs, some tables 0/1", symbols=(3,) * 3, rows=2000, noise=0.05, leak=0.4),
        world("32 outputs, 1 % private", symbols=(2,) * 5, rows=10_000, prior=[0.99, 0.01],
              fixed=False, leak=0.4),
        world("16 outputs, groups of 10", symbols=(2,) * 4, rows=4000, leak=0.2, group=10),
        world("64 outputs, 3 classes", symbols=(2,) * 6, rows=3000, classes=3, fixed=False,
              prior=[0.5, 0.3, 0.2], leak=0.0),
        world("256 outputs", symbols=(2,) * 8, rows=10_000, leak=0.05),
        world("256 outputs, sharper tables", symbols=(2,) * 8, rows=10_000, leak=0.05, noise=0.4),
    ]  # fmt: skip


def truths(home):
    given, prior = home.given(), home.prior
    return {
        "pairwise epsilon": pairwise_epsilon(given),
        "information epsilon": information_epsilon(given, prior),
        "information, prior known": information_epsilon(given, prior),
        f"information beyond {DELTA}": epsilon_beyond(given, prior, DELTA),
        "total variation": total_variation(given),
        "advantage": advantage(given),
        "accuracy": 1 - bayes_error(given, prior),
        "accuracy, prior known": 1 - bayes_error(given, prior),
    }


def audit(home, rows, seed):
    known = PointwiseAudit(rows, seed, home.prior)
    # Where the rows were drawn class by class their shares say nothing about the prior.
    random = known if home.fixed else PointwiseAudit(rows, seed)
    prior = home.prior if home.fixed else None
    return [
        known.pairwise(ALPHA),
        random.information(ALPHA),
        known.information(ALPHA),
        random.beyond(ALPHA, (DELTA,), information=True)[0],
        certify_total_variation(rows, ALPHA),
        certify_advantage(rows, ALPHA),
        certify_accuracy(rows, ALPHA, prior),
        certify_accuracy(rows, ALPHA, home.prior),
    ]


def plainer(rows, rng):
    """Return the pairwise bounds: kl with a union, kl without, drawn symbols."""
    low, high = smallest_and_largest(rows.tables)
    width = np.maximum(high - low, 1e-300)
    shown = np.clip((rows.average - low) / width, 0, 1)
    counts = np.array(rows.counts)[:, None]
    cells = rows.n_classes * rows.n_outputs
    found = []
    for times in (2 * cells, 2):
        level = np.log(times / ALPHA) / counts
        found.append(widest(low + width * kl_lower(shown, level),
                            np.minimum(low + width * kl_upper(shown, level), high)))  # fmt: skip
    sent = np.zeros(len(rows.index), dtype=int)
    for t, table in enumerate(rows.tables):
        sent = sent * table.shape[1] + pick(table, rows.codes[:, t], rng)
    hits = np.stack([np.bincount(sent[rows.index == g], minlength=rows.n_outputs)
                     for g in range(rows.n_classes)])  # fmt: skip
    share = ALPHA / (2 * cells)
    found.append(widest(clopper_pearson_lower(hits, counts, share),
                        clopper_pearson_upper(hits, counts, share)))  # fmt: skip
    return found


def widest(lower, upper):
    with np.errstate(divide="ignore"):
        ratios = np.log(upper)[:, None] - np.log(lower)[None]
    ratios[np.arange(len(lower)), np.arange(len(lower))] = 0.0
    return ratios.max()


def number(certificate):
    return np.inf if certificate.bound is None else certificate.bound


def show(value):
    return f"{'none':>9}" if np.isinf(value) else f"{value:9.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    began, tightness = time.perf_counter(), []
    print(f"{'':28}{'certificate':28}{'holds':>8}{'exists':>8}{'median':>9}{'truth':>9}")
    for home in settings():
        if chosen.only not in home.name:
            continue
        rng = np.random.default_rng(1)
        bounds, others = [], []
        for trial in range(chosen.trials):
            rows = home.draw(rng)
            bounds.append([number(c) for c in audit(home, rows, trial)])
            if home.group == 1:
                others.append(plainer(rows, rng))
        table = np.array(bounds)
        for k, (name, truth) in enumerate(truths(home).items()):
            held, exists = np.mean(table[:, k] >= truth - 1e-12), np.isfinite(table[:, k]).mean()
            print(f"{home.name if not k else '':28}{name:28}{held:8.3f}{exists:8.2f}"
                  f"{show(np.median(table[:, k]))}{show(truth)}", flush=True)  # fmt: skip
        if others:
            tightness.append((home.name, *np.median(others, axis=0), np.median(table[:, 0]),
                              number(certify_structure(home.tables).total),
                              pairwise_epsilon(home.given())))  # fmt: skip
    print(f"\n{'pairwise epsilon, median':28}{'kl':>9}{'kl, one':>9}{'symbols':>9}"
          f"{'adopted':>9}{'tables':>9}{'truth':>9}")  # fmt: skip
    for name, *values in tightness:
        print(f"{name:28}" + "".join(map(show, values)))
    print(f"\n{time.perf_counter() - began:.0f} s, {chosen.trials} trials each")


if __name__ == "__main__":
    main()
