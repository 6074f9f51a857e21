"""What an audit found, in one object: figures, certificates, attacks and the verdict.

*One report as an example for pictures: what a sensor may read, draws from, and sends.* It comes
from the tables alone. An audit is shown around, so that no reading of the audited rows may be in
it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from discreet.auditing.attackers.attack import AttackResult, BestAttack
from discreet.auditing.bounds.certificates import BeyondAnswer, Certificate
from discreet.auditing.bounds.epsilon import BEYOND_MASS
from discreet.auditing.bounds.intervals import Interval
from discreet.auditing.bounds.over_time import OverTime, Structural
from discreet.auditing.findings import Contribution, PlugInEpsilon, TellingGroups
from discreet.auditing.rounds import RoundsAudit
from discreet.data.encoders import CategoriesEncoder
from discreet.leakage.exact import Budget
from discreet.mapping.mapping import Mapping
from discreet.rounding import down, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discreet.auditing.other_secrets import OtherSecrets

_SHOWN = 4  # sensors


def example_report(mapping: Mapping) -> list[dict[str, Any]]:
    """Return a code of each of the first sensors, the row of its table, and a symbol of it.

    Both are drawn, and are the same each time.
    """
    rng = np.random.default_rng(0)
    found = []
    for sensor, table in list(zip(mapping.sensors, mapping.tables, strict=True))[:_SHOWN]:
        encoder = sensor.encoder
        # Codes that stand for a reading that is there and known.
        plain = encoder.n_codes - encoder.missing - isinstance(encoder, CategoriesEncoder)
        code = int(rng.integers(max(plain, 1)))
        symbol = int(rng.choice(table.shape[1], p=table[code]))
        found.append({
            "sensor": sensor.name, "reading": encoder.labels()[code], "row": table[code].tolist(),
            "symbol": symbol,
        })  # fmt: skip
    return found


FEW_ROWS = 200
"""Below this many rows no method certifies a useful epsilon, and every account says so."""


@dataclass(frozen=True)
class Figures:
    """Exact quantities of the audited rows' own distribution, p^(z|class): estimates.

    For a distribution that is known these are the truth; here they describe the rows and
    err upwards, the more so the fewer rows there are for each output.
    """

    bayes_error: float
    risk: float
    total_variation: float
    advantage: float
    epsilon: float
    epsilon_beyond: dict[str, float]
    pairwise_epsilon: float
    mutual_information: float
    maximal_leakage: float
    extreme_probability: float
    budgets: tuple[Budget, ...]


@dataclass(frozen=True)
class Attacks:
    """The same attackers on what is sent and on the readings themselves."""

    symbols: tuple[AttackResult, ...]
    readings: tuple[AttackResult, ...]
    best: BestAttack
    best_on_readings: BestAttack


@dataclass(frozen=True)
class FactAudit:
    """What was found out about one private fact.

    ``figures``: none where the outputs are too many to list. ``certificates``: upper bounds, each
    with its confidence, assumptions and words. ``beyond_answer``: what is gained by an attacker who
    knows the public fact. ``telling_groups``: share of the groups that may give away more than
    the limit, each by its own rows. ``findings``: leaks that were found, named. ``rounds``: what
    many rounds tell, if that was asked.
    """

    name: str
    classes: tuple[str, ...]
    rows: tuple[int, ...]
    figures: Figures | None
    plug_in: PlugInEpsilon
    certificates: tuple[Certificate, ...]
    over_time: OverTime
    beyond_answer: BeyondAnswer
    telling_groups: TellingGroups | None
    attacks: Attacks
    contributions: tuple[Contribution, ...]
    findings: tuple[str, ...]
    rounds: RoundsAudit | None = None

    def certificate(self, name: str) -> Certificate:
        """Return the certificate of that name."""
        return next(each for each in self.certificates if each.name == name)

    @property
    def strongest_on_readings(self) -> float:
        """The largest gain of a real attacker on the raw readings: an estimate, no bound."""
        ran = [each.balanced_accuracy for each in self.attacks.readings if each.balanced_accuracy]
        best = max((each.estimate for each in ran), default=0.0)
        return max(best - 1.0 / len(self.classes), 0.0)

    @property
    def estimates(self) -> dict[str, float]:
        """What the rows show of what each certificate bounds, by its name, where it is known."""
        figures, beyond = self.figures, self.beyond_answer
        if figures is None:
            return {}
        found = {
            "advantage": figures.advantage,
            "total variation": figures.total_variation,
            "accuracy": 1.0 - figures.bayes_error,
            "information epsilon": figures.epsilon,
            "pairwise epsilon": figures.pairwise_epsilon,
            **{BEYOND_MASS + delta: value for delta, value in figures.epsilon_beyond.items()},
            beyond.answer.name: beyond.answer_estimate,
        }
        inside = zip(beyond.by_class, beyond.estimates, strict=True)
        known = {each.name: value for each, value in inside if value is not None}
        if len(known) == len(beyond.estimates):
            found[beyond.total.name] = max(known.values())
        return found | known


@dataclass(frozen=True)
class PublicAudit:
    """What the fusion centre makes of the symbols.

    ``error``, ``error_low``, ``error_high``: share of wrong answers of the mapping's own fusion
    rule. ``guessing_error``: that of always naming the most frequent class. ``raw_error``: that of
    the strongest classifier on the raw readings, an estimate. ``balanced``: balanced accuracy of
    the fusion rule: every class counts the same. ``raw_balanced``: that of the strongest classifier
    on the raw readings, an estimate. ``constant``: whether the fusion rule names one class whatever
    it hears. ``doubt``: why the intervals promise nothing: rows that depend on one another. Else
    nothing.
    """

    name: str
    classes: tuple[str, ...]
    rows: tuple[int, ...]
    error: float
    error_low: float
    error_high: float
    guessing_error: float
    raw_error: float
    balanced: Interval
    raw_balanced: float
    constant: bool
    attacks: Attacks
    contributions: tuple[Contribution, ...]
    doubt: str = ""

    @property
    def guessing_balanced(self) -> float:
        return 1.0 / len(self.classes)

    @property
    def useful(self) -> bool:
        """Whether answers vary and are better than guessing, for certain."""
        better = self.balanced.low > self.guessing_balanced
        return better and not self.constant and not self.doubt


@dataclass(frozen=True)
class LimitCheck:
    """Whether a stated limit is met, for the private fact that is worst.

    ``state``: "met": certified. "broken": a real attacker goes beyond it. "not shown": neither.
    ``radius``: how far every private class may move, in total variation of its readings, before the
    limit is no longer certain; None where that is not known. ``needed``: about how many rows or
    groups would certify the limit, if it is not shown.
    """

    name: str
    limit: float
    fact: str
    upper: float | None
    lower: float | None
    state: str
    words: str
    radius: float | None = None
    needed: str = ""

    @property
    def met(self) -> bool:
        return self.state == "met"

    @property
    def drift(self) -> str:
        """What change of the world a limit that is met survives, in words."""
        if self.radius is None:
            return ""
        if self.radius >= 1:
            return "The limit holds whatever the sensors read: the tables alone keep it."
        return (
            "The limit stays certain while the readings of no private class move by more than "
            f"{down(self.radius):.3f} in total variation: while at most "
            f"{percent(down(self.radius))} of "
            "them change."
        )


@dataclass(frozen=True, repr=False)
class Audit:
    """The whole audit.

    ``rows_from``: where the rows come from, in words. ``confidence``: of every kind of certificate,
    over all private facts together, and of all limits. ``structural``: the bound that needs no
    rows, C1. ``unit``: what is independent: "row", or what a group of rows is called.
    ``conditions``: what the verdict rests on that was declared or could not be checked.
    ``remarks``: what a reader has to know about the rows: unknown readings, groups, few rows.
    ``program``: what made the audit, with its version; ``to_dict`` has the version of the format
    besides. ``other_secrets``: what symbols tell about columns that nobody declared.
    ``independence``: what shows that rows are fresh and independent, each in a sentence.
    ``mapping``: what was audited; ``to_dict`` has its id only.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import RandomizedResponseMapper, audit
    >>> rng = np.random.default_rng(0)
    >>> who, fall = rng.integers(2, size=(2, 200))
    >>> X = np.column_stack([fall, who])
    >>> mapper = RandomizedResponseMapper(ldp_epsilon=0.5)
    >>> mapper = mapper.fit(X[:100], fall[:100], private=who[:100])
    >>> found = audit(mapper, X[100:], fall[100:], private=who[100:])
    >>> found.to_frame().columns.tolist()
    ['role', 'at_least', 'at_most', 'raw']
    >>> found.to_html().startswith("<!doctype html>")
    True
    >>> figure = found.plot()
    >>> found.to_dict()["format"]
    'discreet-audit'
    """

    mapping_id: str
    method: str
    created: str
    rows: int
    rows_from: str
    confidence: float
    seed: int
    releases: int
    outputs: int
    structural: Structural
    public: PublicAudit
    private: tuple[FactAudit, ...]
    limits: tuple[LimitCheck, ...]
    unit: str
    conditions: tuple[str, ...]
    remarks: tuple[str, ...]
    verdict: str
    date: str
    program: str
    other_secrets: OtherSecrets
    independence: tuple[str, ...]
    mapping: Mapping

    @property
    def ok(self) -> bool:
        """Whether every stated limit is met; true if none was stated."""
        return all(check.met for check in self.limits)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificates take for granted, each once."""
        every = [each for fact in self.private for each in fact.certificates]
        return tuple(dict.fromkeys(text for each in every for text in each.assumptions))

    @property
    def rounds_assumptions(self) -> tuple[str, ...]:
        """What a bound over many rounds takes for granted besides."""
        every = [each.rounds.certificate.assumptions for each in self.private if each.rounds]
        known = set(self.assumptions)
        return tuple(dict.fromkeys(text for each in every for text in each if text not in known))

    def __repr__(self) -> str:
        """Return the verdict in a word, and what was audited."""
        word = self.verdict.partition(":")[0]
        return f"<Audit of {self.mapping_id[7:13]}: {word}, {self.rows} rows>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict and the figures."""
        figures = self.to_frame().to_html(float_format="{:.3f}".format, na_rep="not known")
        return f"<p>{escape(self.verdict)}</p>{figures}"

    def to_html(self) -> str:
        """Return the report: one page that loads and runs nothing, to read, sign and print."""
        from discreet.auditing.report.page import render_report  # draws pictures: slow to import

        return render_report(self)

    def to_frame(self) -> pd.DataFrame:
        """Return every fact with its gain over guessing, in balanced accuracy, from one report.

        ``at_least`` was reached for certain and ``at_most`` is certified, for a private fact; for
        the public one they are the interval of the answers. ``raw``: from the raw readings.
        """
        public, base = self.public, self.public.guessing_balanced
        rows = [("public", public.balanced.low - base, public.balanced.high - base,
                 public.raw_balanced - base)]  # fmt: skip
        for fact in self.private:
            best, raw = fact.attacks.best.lower, fact.attacks.best_on_readings.lower
            rows.append(("private", best, fact.certificate("advantage").bound or np.nan, raw))
        names = pd.Index([public.name, *(fact.name for fact in self.private)], name="fact")
        return pd.DataFrame(rows, names, ["role", "at_least", "at_most", "raw"])

    def plot(self) -> Figure:
        """Draw how far answer and secrets are from guessing, raw and as sent.

        Returns a Matplotlib figure.
        """
        from discreet.auditing.audit_file import AuditSummary, draw_audit

        return draw_audit(AuditSummary.model_validate(self.to_dict()))

    @property
    def digest(self) -> str:
        """What tells this audit from any other; its report and its JSON have the same."""
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the audit for JSON: no infinity, no NaN; a missing bound has a reason."""
        fields = (name for name in self.__dataclass_fields__ if name != "mapping")
        found = {name: _for_json(getattr(self, name)) for name in fields}
        found["public"]["useful"] = self.public.useful
        found["example"], found["sensors"] = example_report(self.mapping), len(self.mapping.sensors)
        return {"format": "discreet-audit", "version": 1, "ok": self.ok, **found}


def with_report(audit: dict[str, Any], page: bytes) -> dict[str, Any]:
    """Return an audit for JSON that knows its report, so that no other passes for it."""
    return audit | {_REPORT: "sha256:" + hashlib.sha256(page).hexdigest()}


def has_report(audit: dict[str, Any], page: bytes) -> bool:
    """Whether a page is the report that was written with an audit, byte by byte."""
    named = f'<meta name="discreet-audit" content="{digest_of(audit)}">'.encode()
    return with_report(audit, page) == audit and named in page


_REPORT = "report"


def digest_of(audit: dict[str, Any]) -> str:
    """Return the digest of an audit as its JSON has it, however it is written down.

    Its report has this digest, so the digest of the report is left out.
    """
    known = {name: value for name, value in audit.items() if name != _REPORT}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _for_json(value: Any) -> Any:
    if isinstance(value, Certificate):
        return value.as_dict()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [_for_json(each) for each in value]
    if isinstance(value, dict):
        return {key: _for_json(each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _for_json(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
