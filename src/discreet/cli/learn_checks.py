"""Options of ``discreet learn`` that contradict one another or the method: refused at once."""

from __future__ import annotations

from discreet.cli.options import option_name
from discreet.errors import InputError


def check_rounds(rounds: int | None, stay: float | None, max_advantage: float | None) -> None:
    """Refuse a limit on many rounds that lacks what it takes."""
    if stay is not None and rounds is None:
        raise InputError("--stay was given without --rounds, which it is for. Give both.")
    if rounds is not None and max_advantage is None:
        raise InputError(
            f"--rounds {rounds} needs to know what they may tell together. Give --max-advantage."
        )


def check_wishes(method: str, wishes: dict[str, float | None], beyond_answer: bool) -> None:
    """Refuse wishes for privacy that contradict each other or the method."""
    given = [option_name(name) for name in wishes if wishes[name] is not None]
    if method == "ndd" and given:
        raise InputError(
            f"{given[0]} was given, but --method ndd protects nothing. Leave {given[0]} out, or "
            "use --method npo."
        )
    deaf = [name for name in given if name != "--ldp-epsilon"]
    if method == "randomized-response" and deaf:
        raise InputError(
            f"{deaf[0]} was given, but --method randomized-response does not look at the private "
            "fact. Give --ldp-epsilon, the budget of every sensor, or use --method npo."
        )
    searched = [name for name in given if name in ("--max-advantage", "--epsilon")]
    if "--ratio" in given and searched:
        raise InputError(
            f"--ratio was given together with {searched[0]}, which searches for the ratio itself. "
            "Give one or the other."
        )
    if beyond_answer and method != "auto":
        raise InputError(
            f"--beyond-answer was given, but --method {method} does not tell its attackers the "
            "public fact. Use --method auto."
        )


def check_loss(method: str, loss: str | None) -> None:
    """Refuse a loss of a method that has none."""
    if loss is not None and method == "auto":
        raise InputError(
            f"--loss {loss} was given, but --method auto minimises no loss. Leave it out, or use "
            "--method npo."
        )
