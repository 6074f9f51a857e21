"""``discreet budget``: what many rounds tell about a private fact, under each policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from discreet.cli.options import (
    Json,
    PrivateStay,
    Seed,
    argument,
    flag,
    is_count,
    is_share,
    option,
)
from discreet.cli.policies import read_stay, rows_to_estimate
from discreet.cli.terminal import (
    check_order,
    check_out,
    interruptible,
    line_width,
    print_json,
    print_lines,
)
from discreet.errors import InputError
from discreet.layout import Column, table
from discreet.plots import check_suffix
from discreet.rounding import down, up

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from discreet.auditing.data import AuditData
    from discreet.auditing.rounds import SeriesData
    from discreet.leakage.over_time import LeakOverTime, PolicyLeak, Range
    from discreet.leakage.speaking import AnsweringWay
    from discreet.mapping.mapping import Mapping
    from discreet.mapping.parts import PublicChain

_EVERY = (4, 16)
_POLICIES = {
    "never": "fresh draws",
    "code": "same code, same symbol",
    "period": "one symbol a period",
}
_COLUMNS = (
    Column("policy", gap=0, least=32),
    Column("releases", right=True, least=8, gap=1),
    Column("advantage", right=True, least=23, gap=1),
    Column("closed form", right=True, least=11),
    Column("information", right=True, least=11),
    Column("epsilon", right=True, least=8),
    Column("anything (epsilon, advantage)", gap=3),
)


def budget(
    mapping: Annotated[Path, argument("MAPPING", "Mapping file.")],
    tables: Annotated[
        list[Path] | None,
        argument(
            "[TABLE]...",
            "Labelled rows, to estimate what a round tells; of the table that was learned "
            "from only held-out rows count. [default: the worst that the tables allow]",
        ),
    ] = None,
    rounds: Annotated[int, option("N", "Reports of each sensor.", is_count)] = 1440,
    stay: PrivateStay = None,
    period_rounds: Annotated[
        int | None, option("N", "Rounds of a period. [default: all]", is_count)
    ] = None,
    every: Annotated[
        list[int] | None,
        option(
            "K",
            "Also look at reports in every K-th round; may be given several times. "
            "[default: 4 and 16]",
        ),
    ] = None,
    beyond_answer: Annotated[
        bool, flag("--beyond-answer", "For an attacker who knows the public fact.")
    ] = False,
    at_most: Annotated[
        float | None,
        option(
            "A",
            "Also look for ways to speak that tell no more than this in all rounds, beyond "
            "the public fact, and how well decisions that remember answer then.",
            is_share,
        ),
    ] = None,
    time_column: Annotated[
        str | None,
        option(
            "COLUMN",
            "When each row was written: without --stay, estimate from these rows how long a "
            "private fact lasts; and try the ways of --at-most on them, not on simulated rounds.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the mapping with the noise of the best way of --at-most in which all sensors "
            "speak at once.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, option("FILE", "Draw the advantage against rounds: .svg or .png.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compute what many rounds tell about a private fact, under each repeat policy.

    A message may tell little and a day of messages nearly all. The figures are about the fact of
    the middle round, for an attacker who sees all rounds; they assume that the symbols of a round
    depend on the past only through the fact of that round. "Anything" assumes nothing.

    Example:

        discreet budget home.json home.csv --rounds 96 --stay 0.9 --plot day.svg

    How long the fact lasts is read from the rows:

        discreet budget home.json home.csv --rounds 1440 --time-column date

    How to speak so that a day tells at most 0.1, where learning was shown the time of rows:

        discreet budget home.json home.csv --stay 1 --at-most 0.1 --out new.json

    For a fact that never changes, whatever the sensors read:

        discreet budget home.json --rounds 1440 --stay 1
    """
    with interruptible("stopped."):
        from discreet.leakage.over_time import over_time
        from discreet.mapping.mapping import Mapping

        _check_times(time_column, tables, stay, at_most)
        if out is not None and at_most is None:
            raise InputError("--out is for --at-most, whose best way it writes. Give both.")
        if plot is not None:
            check_suffix(plot)
            check_out(plot, mapping, "--plot")
        if out is not None:
            check_out(out, mapping)
        check_order(mapping, tables or ())
        known = Mapping.load(mapping)
        if not known.private:
            raise InputError(f"{mapping} guards no private fact, so that there is no budget.")
        rows, data = rows_to_estimate(known, tables, time_column) if tables else (None, None)
        chains = _chains(known, stay, data)
        found = [
            over_time(
                known,
                rows,
                rounds=rounds,
                stay=chains.get(fact.name),
                fact=fact.name,
                period_rounds=period_rounds,
                every=every or _EVERY,
                beyond_answer=beyond_answer,
                random_state=seed,
            )
            for fact in known.private
        ]
        ways = {} if at_most is None else _find_ways(known, rows, data, found, at_most, seed)
        if as_json:
            told = {fact: {"ways": list(map(asdict, each))} for fact, each in ways.items()}
            print_json([each.to_dict() | told.get(each.fact, {}) for each in found])
        else:
            read = "" if stay is not None or data is None else _say_series(data.series)
            print_lines(describe(found, data.origin if data else "", beyond_answer, read))
            for fact, own in ways.items():
                print_lines(_way_lines(fact, own, known.chain, at_most))
        if out is not None and at_most is not None:
            line = _write_quieter(known, list(ways.values()), at_most, out)
            print_lines([] if as_json else [line])
        if plot is not None:
            _draw(found, plot)


def _check_times(
    column: str | None, tables: list[Path] | None, stay: str | None, at_most: float | None
) -> None:
    if column is None:
        return
    if not tables:
        raise InputError(f"--time-column {column} is one of rows. Give their table as well.")
    if stay is not None and at_most is None:
        raise InputError(
            f"--stay {stay} states what --time-column {column} would estimate. Give one of them."
        )


def _chains(mapping: Mapping, stay: str | None, data: AuditData | None) -> dict[str, ArrayLike]:
    """Return how each private fact moves: as stated, or as the series shows."""
    from discreet.data.series import estimate_moves

    if stay is not None:
        return {fact.name: read_stay(stay) for fact in mapping.private}
    if data is None or data.series is None:
        return {}
    follows, index = data.series.series.follows, data.series.private
    return {
        fact.name: estimate_moves(index[fact.name], follows, len(fact.classes))
        for fact in mapping.private
    }


def _say_series(series: SeriesData | None) -> str:
    if series is None:
        return ""
    found = series.series
    return (
        f"how long it lasts is estimated from {found.pairs:,} steps of {series.time!r}, rounds of "
        f"{found.step:g} s, and not certified (audit --rounds bounds it)"
    )


def _find_ways(
    mapping: Mapping,
    rows: pd.DataFrame | None,
    data: AuditData | None,
    found: Sequence[LeakOverTime],
    most: float,
    seed: int,
) -> dict[str, list[AnsweringWay]]:
    """Return the ways to speak that keep a limit, for each private fact."""
    from discreet.leakage.chains import Chain
    from discreet.leakage.speaking import LivedRounds, answering_ways, joint_of_rows

    lacks = {
        "rows": rows is None,
        "--stay or --time-column": any(each.chain is None for each in found),
        "a mapping that was learned with --time-column": mapping.chain is None,
    }
    if any(lacks.values()) or rows is None or mapping.chain is None:
        wanted = next(name for name, missing in lacks.items() if missing)
        raise InputError(f"--at-most needs {wanted}, to compare ways to speak. Give it.")
    ways, lived = {}, None
    if data is not None and (rounds := data.series) is not None:
        lived = LivedRounds.of_codes(mapping, rounds.codes, rounds.public, rounds.series, seed)
    for each, fact in zip(found, mapping.private, strict=True):
        joint = joint_of_rows(mapping, rows, fact)
        shares = joint.reshape(len(joint), -1).sum(axis=1)
        public = Chain.of_stay(mapping.chain.moves, shares)
        assert each.chain is not None
        ways[fact.name] = answering_ways(
            joint, public, each.chain, each.rounds, most, lived=lived, seed=seed
        )
    return ways


def _write_quieter(
    mapping: Mapping, ways: Sequence[Sequence[AnsweringWay]], most: float, out: Path
) -> str:
    """Write the mapping of the best way for all private facts, and return what to do with it."""
    from discreet.leakage.speaking import best_for_all

    assert mapping.chain is not None
    best = best_for_all(ways)
    if best is None:
        raise InputError(
            f"no way in which all sensors speak at once tells at most {most:g} of every private "
            "fact, so that --out has nothing to write. Ask for more, or learn from more rows."
        )
    mapping.with_noise(best.kept).save(out)
    return (
        f"wrote {out}: symbols kept with probability {best.kept:.3f}, decisions wrong in "
        f"{best.error:.3f} ± {best.deviation:.3f}. Estimates from these rows: audit it, then "
        f"discreet init --interval {best.every * mapping.chain.interval:g} --repeat never"
    )


# --- In words --------------------------------------------------------------------------------


def describe(
    found: Sequence[LeakOverTime], origin: str, beyond_answer: bool, read: str = ""
) -> Iterator[str]:
    """Yield a table for each fact, what it rests on, and the policy that tells least.

    ``read``: where it is known from how long a fact lasts, if that was not stated.
    """
    for each in found:
        yield from _table(each)
        yield ""
        yield (
            "advantage of the best attacker over guessing (information in nats), about the fact of "
            f"the middle one of {each.rounds:,} rounds, all of them seen:"
        )
        for assumption in each.assumptions:
            yield f"  {assumption}"
        if read:
            yield f"  {read}"
        if origin and not each.law.worst:
            yield f"  {origin}"
        if beyond_answer:
            yield "  knowing the public fact, which stays at the class that gives away most"
        yield "anything: C1 times the fresh draws, whatever depends on whatever"
        yield _advice(each)


def _way_lines(
    fact: str, ways: Sequence[AnsweringWay], chain: PublicChain | None, most: float | None
) -> Iterator[str]:
    from discreet.errors import shown

    assert chain is not None and most is not None
    yield ""
    yield (
        f"ways to tell at most {most:g} of {shown(fact)} beyond the public fact, and wrong "
        "decisions with memory (if symbols are drawn afresh), best first:"
    )
    for way in ways:
        who = "one sensor in turn" if way.in_turn else "all sensors"
        clear = "no noise" if way.kept == 1.0 else f"symbols kept with probability {way.kept:.3f}"
        yield (
            f"  {who}, every {way.every * chain.interval:g} s, {clear}: advantage "
            f"{way.advantage:.4f}, error {way.error:.3f} ± {way.deviation:.3f}"
        )
    plain = next((way for way in ways if way.kept == 1.0 and not way.in_turn), None)
    if plain is None:
        yield "  none by speaking less often alone"
    else:
        yield f"  less often: discreet init --interval {plain.every * chain.interval:g}"


def _table(each: LeakOverTime) -> Iterator[str]:
    from discreet.errors import shown

    one = "not known"
    if each.one_round is not None:
        most = "at most " if each.law.worst else ""
        gain, information = each.one_round
        one = f"advantage {most}{up(gain, 4):.4f}, information {most}{information:.2g} nats"
    epsilon = _number(each.one_round_epsilon)
    yield f"private fact {shown(each.fact)}, one round: {one}, epsilon {epsilon}"
    always = 1.0 - 1.0 / each.law.n_classes
    yield from table(_COLUMNS, [_row(leak, always) for leak in each.leaks], line_width())


def _row(leak: PolicyLeak, most: float) -> tuple[str, ...]:
    from discreet.leakage.over_time import NO_BETTER

    name = f"{leak.policy}: {_POLICIES[leak.policy]}" if leak.policy in _POLICIES else leak.policy
    closed = "" if leak.closed_form is None else f"{leak.closed_form:.4f}"
    information = (
        "no bound" if leak.information.how == "no bound" else f"{leak.information.high:.2g}"
    )
    gain, bounded = leak.any_advantage, leak.any_advantage < NO_BETTER * most
    without = f"{_number(leak.any_epsilon)}, {f'{up(gain, 4):.4f}' if bounded else 'no bound'}"
    return (
        name,
        f"{leak.releases:,}",
        _range(leak.advantage),
        closed,
        information,
        _number(leak.epsilon),
        without,
    )


def _range(found: Range) -> str:
    if found.how == "no bound":
        return found.how
    if found.how.startswith("at most"):
        return f"{found.how} {up(found.high, 4):.4f}".replace("at most, 95 %", "at most (95 %)")
    if found.high - found.low < 1e-4:
        return f"{up(found.high, 4):.4f}"
    sure = " (95 %)" if found.how.startswith("simulated") else ""
    return f"{down(found.low, 4):.4f} to {up(found.high, 4):.4f}{sure}"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "no bound"


def _advice(each: LeakOverTime) -> str:
    best = each.choice.policy
    if all(leak.advantage.how == "no bound" for leak in each.leaks[:2]):
        return "no bound for sensors that answer in every round, with --repeat never or code"
    if not each.choice.clear:
        return f"--repeat never and code are not known to differ; {best} has the smaller bound"
    return f"--repeat {best} tells least of what answers in every round (never, code)"


def _draw(found: Sequence[LeakOverTime], path: Path) -> None:
    from discreet.files import write_whole
    from discreet.plots import advantage_curves

    curves = {
        each.fact: [(n, ends.low, ends.high, closed) for n, ends, closed in each.curve()]
        for each in found
    }
    if not any(curves.values()):
        raise InputError(
            "--plot needs --stay, and rows where the private fact has more than two classes: "
            "without them there is no curve to draw."
        )
    drawn = {name: curve for name, curve in curves.items() if curve}
    write_whole(path, advantage_curves(drawn, path))
