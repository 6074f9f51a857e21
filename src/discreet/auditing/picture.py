"""An audit as one picture: what a report is made of, and what it tells, raw and as sent.

Drawn from what ``discreet audit --json`` prints, so that any audit can have its own. Matplotlib is
imported on the first call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.auditing.summary import AuditSummary, PrivateFact, SensorExample
from discreet.plots import INK, LIMIT, PAPER, matplotlib_settings
from discreet.quoting import plain_points, up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_SENT, _RAW, _TRACK, _MUTED = "#0b6a99", "#a14a00", "#ecf0f3", "#535e69"
_SHADES = ("#cfdfe9", "#0f4461")  # of the first symbol and of the last
_LEFT, _RIGHT, _ROW = 5.0, 6.2, 0.95  # inches
_MOST_SECRETS = 6
_WIDEST = 18  # letters


def draw_audit(
    found: AuditSummary, title: str = "", names: Mapping[str, str] | None = None
) -> Figure:
    """Return the picture: on the left one report as an example, on the right what it tells.

    The right half has a bar for the answer and one for each private fact, from guessing on.
    Everything is balanced accuracy, in percent. A diamond is the strongest attacker on the raw
    readings, a dot the same on what is sent; the line is what no attacker exceeds, the dashes the
    limit that was stated, whether or not it is kept. ``names``: what to call facts and sensors, by
    their names.
    """
    from matplotlib.figure import Figure

    secrets = found.private[:_MOST_SECRETS]
    height = 1.4 + _ROW * max(1 + len(secrets), 0.7 * len(found.example))
    widths = [_LEFT, _RIGHT] if found.example else [_RIGHT + 1.1]
    with matplotlib_settings("discreet-audit"):
        figure = Figure(figsize=(sum(widths), height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
        figure.patch.set_facecolor(PAPER)
        figure.suptitle(title or _title(found), x=0.01, ha="left",
                        fontsize=14, fontweight="bold", color=INK)  # fmt: skip
        halves = figure.subfigures(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _draw_facts(halves[-1], found, names or {})
        if found.example:
            _draw_example(halves[0].subplots(), found, names or {})
        figure.supxlabel(
            f"{found.rows} rows, {100 * found.confidence:g} % confidence, for {found.span}",
            x=0.01, ha="left", fontsize=8, color=_MUTED,
        )  # fmt: skip
    return figure


def _title(found: AuditSummary) -> str:
    """Return what the audit shows, in a line; a claim only where its limits are met."""
    if not (found.public.useful and found.limits and all(e.state == "met" for e in found.limits)):
        return "What the sensors send, and what it tells"
    secrets = " or ".join(_cut(each.name, {}) for each in found.private[:_MOST_SECRETS])
    return f"The sensors tell {_cut(found.public.name, {})}. They hardly tell {secrets}."


def _cut(name: str, names: Mapping[str, str], most: int = _WIDEST) -> str:
    found = names.get(name, name.replace("_", " "))
    return found if len(found) <= most else found[: most - 1] + "…"


# --- What a report is made of ----------------------------------------------------------------


def _draw_example(axes: Axes, found: AuditSummary, names: Mapping[str, str]) -> None:
    """Draw a line for each sensor: its reading, the row it draws from, and what it sends."""
    axes.set_xlim(0, 100)
    axes.set_ylim(len(found.example) + 0.1, -0.75)
    axes.set_axis_off()
    for x, heading in ((0, "a sensor reads"), (53, "draws from its table"), (94, "sends")):
        axes.text(x, -0.5, heading, fontsize=8.5, color=_MUTED, ha="center" if x > 90 else "left")
    for k, each in enumerate(found.example):
        axes.text(0, k, _cut(each.sensor, names), va="center", fontsize=9, color=INK)
        axes.text(50, k, _brief(each.reading), va="center", ha="right", fontsize=9,
                  fontweight="bold", color=INK)  # fmt: skip
        _draw_row(axes, each, k)
        axes.annotate("", (91, k), (83, k), arrowprops={"arrowstyle": "->", "color": _MUTED})
        _draw_symbol(axes, each, k)
    more = found.sensors - len(found.example)
    if more > 0:
        axes.text(0, len(found.example) - 0.25, f"and {more} more", fontsize=8.5, color=_MUTED)


def _brief(reading: str) -> str:
    """Return a reading with few digits."""
    short = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.3g}", reading)
    return _cut(short.replace("<=", "≤"), {}, 13)


def _draw_row(axes: Axes, each: SensorExample, k: int) -> None:
    left, width = 53.0, 28.0
    widest = max(range(len(each.row)), key=each.row.__getitem__)
    for z, share in enumerate(each.row):
        axes.barh([k], [width * share], 0.5, left=left, color=_shade(z, each))
        if z == widest:
            axes.text(left + width * share / 2, k, f"{z}: {100 * share:.0f} %", ha="center",
                      va="center", fontsize=8, color=_on(z, each))  # fmt: skip
        left += width * share


def _draw_symbol(axes: Axes, each: SensorExample, k: int) -> None:
    box = {"boxstyle": "round,pad=0.45", "facecolor": _shade(each.symbol, each), "linewidth": 0}
    axes.text(95, k, str(each.symbol), ha="center", va="center", fontsize=9.5, fontweight="bold",
              color=_on(each.symbol, each), bbox=box)  # fmt: skip


def _depth(z: int, each: SensorExample) -> float:
    return min(z / max(len(each.row) - 1, 1), 1.0)


def _shade(z: int, each: SensorExample) -> Any:
    from matplotlib.colors import to_rgb

    ends = zip(*map(to_rgb, _SHADES), strict=True)
    return tuple(a + _depth(z, each) * (b - a) for a, b in ends)


def _on(z: int, each: SensorExample) -> str:
    return PAPER if _depth(z, each) > 0.5 else INK


# --- What it tells ---------------------------------------------------------------------------


def _draw_facts(half: SubFigure, found: AuditSummary, names: Mapping[str, str]) -> None:
    secrets = found.private[:_MOST_SECRETS]
    half.patch.set_alpha(0.0)
    axes = half.subplots(1 + len(secrets), 1, squeeze=False)[:, 0]
    _draw_answer(axes[0], found, names)
    for place, fact in zip(axes[1:], secrets, strict=True):
        _draw_secret(place, fact, found, names)
    one = "" if found.span == "one report" else ", one report"
    known = any(found.promised(fact) is not None for fact in secrets)
    certified = "│ nobody beyond, certified" if known else "nothing is certified"
    half.supxlabel(
        f"◇ best attacker on the raw readings{one}   ● the same, on what is sent\n"
        f"{certified}   {_limit_words(found)}   (balanced accuracy)",
        fontsize=8, color=_MUTED if _kept(found) else LIMIT,
    )  # fmt: skip


def _kept(found: AuditSummary) -> bool:
    return all(each.state == "met" for each in found.limits)


def _limit_words(found: AuditSummary) -> str:
    """Say which limit was stated and what came of it."""
    if found.stated is None:
        return "the limit on ε is not drawn" if found.limits else "no limit was stated"
    said = {"met": "kept", "not shown": "NOT SHOWN to be kept", "broken": "BROKEN by an attacker"}
    said["met"] += " on condition" * bool(found.conditions)
    return f"┆ limit {plain_points(found.stated.limit)}, {said[found.stated.state]}"


def _draw_answer(axes: Axes, found: AuditSummary, names: Mapping[str, str]) -> None:
    public = found.public
    sent = 100 * (1.0 - public.error if public.balanced is None else public.balanced.estimate)
    name = _cut(public.name, names, 40)
    _begin(axes, name, f"answered right in {sent:.1f} %", len(public.classes) or 2)
    _draw_sent(axes, sent)
    if public.raw_balanced is not None:
        _draw_raw(axes, 100 * public.raw_balanced)


def _draw_secret(
    axes: Axes, fact: PrivateFact, found: AuditSummary, names: Mapping[str, str]
) -> None:
    guessing = 100.0 / (len(fact.classes) or 2)
    reached, bound = guessing + 100 * fact.strongest, found.promised(fact)
    said = f"guessed right in {reached:.1f} %"
    if bound is not None:
        said = f"nobody is right beyond {100 * up(guessing / 100 + bound):.1f} %"
    _begin(axes, _cut(fact.name, names, 40), said, len(fact.classes) or 2, kept=_kept(found))
    _draw_sent(axes, reached)
    if fact.strongest_on_readings is not None:
        _draw_raw(axes, guessing + 100 * fact.strongest_on_readings)
    if bound is not None:
        axes.plot([guessing + 100 * bound] * 2, [-0.75, 0.75], color=_SENT, linewidth=1.6)
    if found.stated is not None:
        at = guessing + 100 * found.stated.limit
        axes.plot([at] * 2, [-0.75, 0.75], color=LIMIT, linestyle=(0, (3, 2)))


def _begin(axes: Axes, name: str, verdict: str, n_classes: int, *, kept: bool = True) -> None:
    axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=INK)
    axes.set_title(verdict, loc="right", fontsize=10, fontweight="bold",
                   color=_SENT if kept else LIMIT)  # fmt: skip
    guessing = 100.0 / n_classes
    axes.barh([0], [100.0 - guessing], 0.7, left=guessing, color=_TRACK)
    axes.set_xlim(guessing - 1.0, 101.0)
    axes.set_ylim(-1.1, 1.1)
    axes.set_yticks([])
    axes.set_xticks([guessing, 100.0], [f"{guessing:.3g} %, guessing", "always right, 100 %"])
    for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)  # type: ignore[arg-type]
    axes.tick_params(length=0, labelsize=8, labelcolor=_MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_sent(axes: Axes, at: float) -> None:
    left = axes.get_xlim()[0] + 1.0
    axes.barh([0], [max(at - left, 0.0)], 0.7, left=left, color=_SENT)
    axes.plot([at], [0], "o", **_look(_SENT, _SENT))


def _draw_raw(axes: Axes, at: float) -> None:
    axes.plot([min(at, 100.0)], [0], "D", **_look(PAPER, _RAW))


def _look(face: str, edge: str) -> dict[str, Any]:
    edges = {"markeredgecolor": PAPER if face == edge else edge, "markeredgewidth": 1.6}
    return {"markerfacecolor": face, "markersize": 9, "clip_on": False, **edges}
