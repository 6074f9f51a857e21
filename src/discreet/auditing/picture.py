"""An audit as one picture: how far the answer and every secret are from guessing, raw and as sent.

Drawn from what ``discreet audit --json`` prints, so that any audit can have its own. Matplotlib is
imported on the first call.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from discreet.auditing.summary import AuditSummary, PrivateFact
from discreet.plots import INK, LIMIT, PAPER, matplotlib_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SENT, _RAW, _TRACK, _MUTED = "#0b6a99", "#a14a00", "#ecf0f3", "#535e69"
_WIDTH, _ROW = 7.4, 0.95  # inches
_MOST_SECRETS = 6


def draw_audit(found: AuditSummary) -> Figure:
    """Return the picture: a bar for the answer, and one for each private fact, from guessing on.

    Everything is balanced accuracy, in percent. A diamond is the strongest attacker on the raw
    readings, a dot the same on what is sent; the line is what no attacker exceeds, the dashes the
    limit.
    """
    from matplotlib.figure import Figure

    secrets = found.private[:_MOST_SECRETS]
    with matplotlib_settings("discreet-audit"):
        figure = Figure(figsize=(_WIDTH, 0.9 + _ROW * (1 + len(secrets))), layout="constrained")
        figure.patch.set_facecolor(PAPER)
        axes = figure.subplots(1 + len(secrets), 1, squeeze=False)[:, 0]
        _draw_answer(axes[0], found)
        for place, fact in zip(axes[1:], secrets, strict=True):
            _draw_secret(place, fact, found)
        span = "one report per sensor" if found.releases == 1 else f"{found.releases} reports"
        figure.supxlabel(
            f"◇ best attacker on the raw readings   ● the same, on what is sent   │ nobody "
            f"beyond, certified   ┆ limit\nbalanced accuracy; {found.rows} rows, "
            f"{100 * found.confidence:g} % confidence, {span}",
            fontsize=8, color=_MUTED,
        )  # fmt: skip
    return figure


def _draw_answer(axes: Axes, found: AuditSummary) -> None:
    public = found.public
    sent = 100 * (1.0 - public.error if public.balanced is None else public.balanced.estimate)
    _begin(axes, f"{public.name}: answered right in {sent:.1f} %", len(public.classes) or 2)
    _draw_sent(axes, sent)
    if public.raw_balanced is not None:
        _draw_raw(axes, 100 * public.raw_balanced)


def _draw_secret(axes: Axes, fact: PrivateFact, found: AuditSummary) -> None:
    guessing = 100.0 / (len(fact.classes) or 2)
    reached, said = guessing + 100 * max(fact.attacks.best.advantage, 0.0), "guessed right in"
    if fact.bound is not None:  # the best of many attackers owes what is beyond to luck
        most, said = guessing + 100 * fact.bound, "nobody is right beyond"
        reached = min(reached, most)
    shown = math.ceil(10 * (reached if fact.bound is None else most)) / 10
    _begin(axes, f"{fact.name}: {said} {shown:.1f} %", len(fact.classes) or 2)
    _draw_sent(axes, reached)
    raw = fact.attacks.best_on_readings
    if raw is not None:
        _draw_raw(axes, guessing + 100 * max(raw.advantage, 0.0))
    if fact.bound is not None:
        axes.plot([most] * 2, [-1, 1], color=_SENT, linewidth=1.6)
    if found.limit is not None:
        axes.plot([guessing + 100 * found.limit] * 2, [-1, 1], color=LIMIT, linestyle=(0, (3, 2)))


def _begin(axes: Axes, title: str, n_classes: int) -> None:
    axes.set_title(title if len(title) <= 80 else title[:79] + "…", loc="left", fontsize=10,
                   fontweight="bold", color=INK)  # fmt: skip
    guessing = 100.0 / n_classes
    axes.barh([0], [100.0 - guessing], 0.8, left=guessing, color=_TRACK)
    axes.set_xlim(guessing - 1.0, 101.0)
    axes.set_ylim(-1.3, 1.3)
    axes.set_yticks([])
    axes.set_xticks([guessing, 100.0], [f"{guessing:.3g} %, guessing", "always right, 100 %"])
    for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)  # type: ignore[arg-type]
    axes.tick_params(length=0, labelsize=8, labelcolor=_MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_sent(axes: Axes, at: float) -> None:
    left = axes.get_xlim()[0] + 1.0
    axes.barh([0], [max(at - left, 0.0)], 0.8, left=left, color=_SENT)
    axes.plot([at], [0], "o", **_look(_SENT, _SENT))


def _draw_raw(axes: Axes, at: float) -> None:
    axes.plot([min(at, 100.0)], [0], "D", **_look(PAPER, _RAW))


def _look(face: str, edge: str) -> dict[str, Any]:
    edges = {"markeredgecolor": PAPER if face == edge else edge, "markeredgewidth": 1.6}
    return {"markerfacecolor": face, "markersize": 9, "clip_on": False, **edges}
