"""The fast solver: all tables at once, by the envelope gradient and a barrier.

    minimise  F(Q) - (1/mu) * [ sum_k log(R_k(Q) - theta_k) + further barriers ]

over the logits of the tables, with mu rising and every stage starting where the last
one ended. The problem is not convex, so many short starts are screened at a small mu
and only the best of them are carried through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from discreet.arrays import Floats
from discreet.design.feasible import Designed
from discreet.design.risks import Risks, RiskValues, Tables
from discreet.leakage.joint_outputs import Products, pull_back
from discreet.progress import Progress, Report

# A smaller first step holds the mapping far inside the floors and leads to worse minima.
BARRIER_STEPS = (300.0, 10000.0)
_SCREENING_STEPS = 20
_LARGEST_LOGIT = 12.0  # keeps every probability above 1e-11: no symbol is ever impossible
# A certain row has to earn its place: without this, outputs that almost never occur
# tell all and epsilon is large for no gain in F.
SOFTNESS = 1e-8


@dataclass(frozen=True)
class PrivateClasses:
    """One private fact, for limits on the log-ratios themselves.

    ``weights`` has one row per class, each the class's share of the distinct rows.
    """

    weights: Floats
    prior: Floats


@dataclass(frozen=True)
class Limits:
    """What the mapping must keep.

    ``floors``: theta_k for every private head; these heads come after the public ones.
    ``reachable``: the largest private risks, those of a constant mapping. ``epsilon``: bound on
    |log p(g|z) / p(g)| over all outputs, on the training rows. ``classes``: the facts that
    ``epsilon`` protects. ``ldp_epsilon``: bound on log Q^t(z|x) / Q^t(z|x') for every sensor.
    """

    floors: Floats
    reachable: Floats
    epsilon: float | None = None
    classes: Sequence[PrivateClasses] = ()
    ldp_epsilon: float | None = None


class _StopWorkError(Exception):
    """Raised inside the objective when the report asks to stop."""


def design_fast(
    risks: Risks,
    limits: Limits,
    n_symbols: Sequence[int],
    *,
    rng: np.random.Generator,
    n_restarts: int = 4,
    starts: Sequence[Tables] = (),
    n_carried: int = 2,
    max_iter: int = 120,
    softness: float = SOFTNESS,
    report: Report | None = None,
) -> Designed:
    """Design tables with the least public risk within the limits.

    ``starts``: mappings to begin from, besides the random ones; they are never screened out, so the
    result is at least as good as any feasible one among them. ``n_restarts``: number of random
    starts that are screened. ``n_carried``: how many of them, the best, are carried through.
    ``max_iter``: most steps at each value of the barrier. ``softness``: weight of the squared
    logits, added to F when mappings are compared.
    """
    n_carried = min(n_carried, n_restarts)
    work = _Work(risks, limits, n_symbols, softness, report)
    # A guess, for the share of work that a bar shows.
    stages = len(BARRIER_STEPS) * (n_carried + len(starts))
    work.planned = 1.3 * (_SCREENING_STEPS * n_restarts + 0.7 * max_iter * stages)
    try:
        given = [work.begin_at(tables) for tables in starts]
        screened = [work.screen(work.random_start(rng)) for _ in range(n_restarts)]
        screened.sort(key=lambda pair: pair[0])
        kept = given + [logits for _, logits in screened[:n_carried]]
        for logits in kept:
            for mu in BARRIER_STEPS:
                logits = work.minimise(logits, mu, max_iter)
    except _StopWorkError:
        work.stopped = True
    return work.result()


class _Work:
    """The objective, its bookkeeping and the best feasible mapping so far."""

    def __init__(
        self,
        risks: Risks,
        limits: Limits,
        n_symbols: Sequence[int],
        softness: float,
        report: Report | None,
    ) -> None:
        self.risks, self.limits, self.report = risks, limits, report
        self.softness = softness
        self.rows = risks.rows
        self.n_public = risks.n_heads - len(limits.floors)
        self.seen = self.rows.seen()
        ends = np.cumsum([len(seen) for seen in self.seen])
        self._parts = [
            (slice(end - len(seen), end), z)
            for end, seen, z in zip(ends, self.seen, n_symbols, strict=True)
        ]
        # Logits of all sensors, one row per code; those of seen codes are the variables.
        self._wide = np.full((ends[-1], max(n_symbols)), -np.inf)
        self._used = np.zeros(self._wide.shape, dtype=bool)
        for (part, z), seen in zip(self._parts, self.seen, strict=True):
            self._wide[part, :z] = 0.0
            self._used[part, :z] = seen[:, None]
        sensor = np.repeat(np.arange(len(self._parts)), [len(seen) for seen in self.seen])
        self._sensor_of_logit = np.broadcast_to(sensor[:, None], self._used.shape)[self._used]
        self.planned = 1.0  # evaluations
        self.evaluations, self.stopped = 0, False
        self.best_score = np.inf
        self.best: Designed | None = None
        self.history: list[float] = []

    # -- logits <-> tables ------------------------------------------------------

    def pack(self, tables: Tables) -> Floats:
        """Return the logits of the seen rows, centred."""
        parts = []
        for table, seen in zip(tables, self.seen, strict=True):
            logits = np.log(np.maximum(table[seen], np.exp(-_LARGEST_LOGIT)))
            parts.append((logits - logits.mean(axis=1, keepdims=True)).ravel())
        return np.concatenate(parts)

    def unpack(self, logits: Floats) -> Tables:
        """Return the tables of given logits; rows never seen stay uniform.

        All sensors go through one softmax: unused symbols have logit minus infinity.
        """
        self._wide[self._used] = logits
        exps = np.exp(self._wide - self._wide.max(axis=1, keepdims=True))
        exps /= exps.sum(axis=1, keepdims=True)
        return [exps[part, :z] for part, z in self._parts]

    def _to_logits(self, tables: Tables, gradients: Tables) -> Floats:
        """Turn gradients in the tables into gradients in the logits."""
        q, g = np.zeros_like(self._wide), np.zeros_like(self._wide)
        for (part, z), table, gradient in zip(self._parts, tables, gradients, strict=True):
            q[part, :z], g[part, :z] = table, gradient
        slope: Floats = (q * (g - (q * g).sum(axis=1, keepdims=True)))[self._used]
        return slope

    def random_start(self, rng: np.random.Generator) -> Floats:
        """Let one sensor after the other speak, in random order, as loudly as limits allow.

        Shrinking all sensors at once until the limits hold would leave them all close to
        silence, where every gradient vanishes.
        """
        full = rng.normal(scale=2.0, size=int(self._used.sum()))
        logits = np.zeros_like(full)
        for t in rng.permutation(len(self._parts)):
            own = self._sensor_of_logit == t
            for loudness in (1.0, 0.5, 0.25, 0.1, 0.03):
                louder = np.where(own, loudness * full, logits)
                if self._has_room(louder):
                    logits = louder
                    break
        return logits

    def begin_at(self, tables: Tables) -> Floats:
        """Take given tables as the best so far, if they keep the limits, and begin there."""
        values = self.risks.evaluate(tables).values
        public, private = float(values[: self.n_public].sum()), values[self.n_public :]
        kept = all(np.all(slack > 0) for slack in self._slacks(tables))
        logits = self.pack(tables)
        score = public + self.softness * float(logits @ logits)
        self._note([table.copy() for table in tables], score, public, private, kept)
        return logits if kept else self.climb_into(logits)

    def climb_into(self, logits: Floats) -> Floats:
        """Shrink logits towards the constant mapping until every limit has some room."""
        for _ in range(60):
            if self._has_room(logits):
                break
            logits = 0.7 * logits
        return logits

    def _has_room(self, logits: Floats) -> bool:
        room = 0.1 * (self.limits.reachable - self.limits.floors)
        slacks = self._slacks(self.unpack(logits))
        return bool(np.all(slacks[0] > room) and all(np.all(slack > 0) for slack in slacks[1:]))

    # -- objective --------------------------------------------------------------

    def _slacks(self, tables: Tables) -> list[Floats]:
        found = self.risks.evaluate(tables)
        slacks = [found.values[self.n_public :] - self.limits.floors]
        if self.limits.epsilon is not None:
            slacks += [slack for slack, _ in self._ratio_slacks(tables, found)]
        if self.limits.ldp_epsilon is not None:
            slacks += [
                _ldp_slack(table[seen], self.limits.ldp_epsilon)
                for table, seen in zip(tables, self.seen, strict=True)
            ]
        return slacks

    def _ratio_slacks(self, tables: Tables, found: RiskValues) -> list[tuple[Floats, Floats]]:
        """Return epsilon -/+ log p(z|g)/p(z), and the p(z|g) behind it, for every fact."""
        assert self.limits.epsilon is not None
        products = found.products or Products(tables, self.rows.codes)
        outputs = products.by_output.T
        slacks = []
        for classes in self.limits.classes:
            given = classes.weights @ outputs
            ratio = np.log(given) - np.log(classes.prior @ given)
            slacks.append((self.limits.epsilon - np.stack([ratio, -ratio]), given))
        return slacks

    def objective(self, logits: Floats, mu: float) -> tuple[float, Floats]:
        """Return the barrier objective and its gradient in the logits."""
        tables = self.unpack(logits)
        found = self.risks.evaluate(tables)
        public = float(found.values[: self.n_public].sum())
        slack = found.values[self.n_public :] - self.limits.floors
        scale = 1e-2 * (self.limits.reachable - self.limits.floors)
        barrier, barrier_slope = _barrier(slack, scale)
        weights = np.concatenate([np.ones(self.n_public), barrier_slope / mu])
        gradients = self.risks.gradient(tables, found, weights)
        value = public + float(barrier.sum()) / mu
        feasible = bool(np.all(slack > 0))
        if self.limits.epsilon is not None:
            more, ok = self._add_ratio_barrier(tables, found, gradients, mu)
            value, feasible = value + more, feasible and ok
        if self.limits.ldp_epsilon is not None:
            more, ok = self._add_ldp_barrier(tables, gradients, mu)
            value, feasible = value + more, feasible and ok
        soft = self.softness * float(logits @ logits)
        self._note(tables, public + soft, public, found.values[self.n_public :], feasible)
        return value + soft, self._to_logits(tables, gradients) + 2 * self.softness * logits

    def _add_ratio_barrier(
        self, tables: Tables, found: RiskValues, gradients: Tables, mu: float
    ) -> tuple[float, bool]:
        """Add the barrier that keeps |log p(z|g)/p(z)| below epsilon."""
        epsilon = self.limits.epsilon
        assert epsilon is not None
        total, feasible = 0.0, True
        for classes, (slack, given) in zip(
            self.limits.classes, self._ratio_slacks(tables, found), strict=True
        ):
            barrier, slope = _barrier(slack, np.full(slack.shape, 1e-2 * epsilon))
            each = 1.0 / (mu * given.shape[0])
            total += each * float(barrier.sum())
            feasible = feasible and bool(np.all(slack > 0))
            ratio_slope = each * (slope[1] - slope[0])
            overall = classes.prior @ given
            given_slope = ratio_slope / given
            given_slope -= np.outer(classes.prior, ratio_slope.sum(axis=0) / overall)
            pulled = pull_back(tables, self.rows.codes, classes.weights.T @ given_slope)
            for gradient, part in zip(gradients, pulled, strict=True):
                gradient += part
        return total, feasible

    def _add_ldp_barrier(self, tables: Tables, gradients: Tables, mu: float) -> tuple[float, bool]:
        """Add the barrier that keeps log Q(z|x) - log Q(z|x') below ldp_epsilon."""
        epsilon = self.limits.ldp_epsilon
        assert epsilon is not None
        total, feasible = 0.0, True
        for table, seen, gradient in zip(tables, self.seen, gradients, strict=True):
            slack = _ldp_slack(table[seen], epsilon)
            barrier, slope = _barrier(slack, np.full(slack.shape, 1e-2 * epsilon))
            each = 1.0 / (mu * len(slack))
            total += each * float(barrier.sum())
            feasible = feasible and bool(np.all(slack > 0))
            log_slope = each * (slope.sum(axis=0) - slope.sum(axis=1))
            gradient[seen] += log_slope / table[seen]
        return total, feasible

    def _note(
        self, tables: Tables, score: float, public: float, private: Floats, feasible: bool
    ) -> None:
        """Keep the best feasible mapping and tell the report how things stand."""
        self.evaluations += 1
        if feasible and score < self.best_score:
            self.best_score = score
            self.best = Designed(tables, public, private, self.limits.floors)
            self.history.append(score)
        if self.report is None or self.best is None:
            return
        nearest, floor = None, None
        if len(private):
            k = int(np.argmin(self.best.private_risks - self.limits.floors))
            nearest, floor = float(self.best.private_risks[k]), float(self.limits.floors[k])
        done = min(0.99, self.evaluations / self.planned)
        if self.report(Progress("design", done, self.best.public_risk, nearest, floor)):
            raise _StopWorkError

    # -- minimisation -----------------------------------------------------------

    def screen(self, logits: Floats) -> tuple[float, Floats]:
        """Run a short minimisation and return (objective, where it ended)."""
        mu = BARRIER_STEPS[0]
        ended = self.minimise(logits, mu, _SCREENING_STEPS)
        return self.objective(ended, mu)[0], ended

    def minimise(self, logits: Floats, mu: float, max_iter: int) -> Floats:
        found = minimize(
            self.objective,
            logits,
            args=(mu,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-_LARGEST_LOGIT, _LARGEST_LOGIT)] * len(logits),
            options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-7},
        )
        ended: Floats = found.x
        return ended

    def result(self) -> Designed:
        """Return the best feasible mapping."""
        if self.best is None:  # nothing was ever strictly inside: the constant mapping is
            tables = self.unpack(np.zeros(int(self._used.sum())))
            values = self.risks.evaluate(tables).values
            public = float(values[: self.n_public].sum())
            self.best = Designed(tables, public, values[self.n_public :], self.limits.floors)
        self.best.evaluations, self.best.stopped = self.evaluations, self.stopped
        self.best.history = self.history
        return self.best


def _barrier(slack: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return -log(slack) and its slope, continued as a parabola below ``scale``.

    The continuation keeps line searches finite; points it scores are never accepted.
    """
    inside = slack > scale
    safe = np.where(inside, slack, scale)
    past = np.where(inside, 0.0, (slack - scale) / scale)
    value = -np.log(safe) - past + 0.5 * past**2
    slope = np.where(inside, -1.0 / safe, (past - 1.0) / scale)
    return value, slope


def _ldp_slack(table: Floats, epsilon: float) -> Floats:
    """Return epsilon - log(Q(z|x) / Q(z|x')) for every pair (x, x') and symbol z."""
    logs = np.log(table)
    return epsilon - (logs[:, None, :] - logs[None, :, :])
