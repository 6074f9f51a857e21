"""What the store holds, row by row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNBOUNDED = 2**32 - 1
"""Stands for a spending without bound, in millionths of a nat."""


class StoredMessage(NamedTuple):
    """A message that was accepted; client, boot and seq identify it.

    ``mapping``: number of the mapping that its symbols were drawn by, see ``mapping_number``.
    """

    client: str
    boot: int
    seq: int
    round: int
    symbols: bytes
    spent: int
    received: float
    mapping: int = 0


def mapping_number(mapping_id: str) -> int:
    """Return what stands for a mapping in the rows of messages; 0 in those of before version 4."""
    return int(mapping_id.removeprefix("sha256:")[:15], 16)


class Seen(NamedTuple):
    """The time that was seen last.

    ``ticks``: what the clock showed at that moment that runs steadily from the machine's start on;
    ``boot``: which start that was, "" if it is not known.
    """

    at: float
    ticks: float = 0.0
    boot: str = ""


class Decision(NamedTuple):
    """What was concluded when a round was closed.

    ``closed``: when, in seconds since 1970. ``reported``: how many sensors were heard.
    ``expected``: how many there are. ``probabilities``: one for each public class, in the mapping's
    order. ``decision``: the class as it is written.
    """

    round: int
    closed: float
    reported: int
    expected: int
    probabilities: tuple[float, ...]
    decision: str


class ClientState(NamedTuple):
    """What is known of a client by its accepted messages.

    ``spent`` is in millionths of a nat; 4294967295 stands for: without bound.
    """

    client: str
    last_seen: float
    last_round: int
    boot: int
    seq: int
    spent: int
    messages: int


class Refusal(NamedTuple):
    """How often messages of a client were counted for a reason, and when last."""

    client: str
    reason: str
    times: int
    last: float

    @property
    def kept_out(self) -> bool:
        """Whether the messages were not stored; late ones and repeats are."""
        return self.reason not in ("late", "replay")


class Refused(NamedTuple):
    """A refused message that is kept for inspection, never to be decided on."""

    client: str
    reason: str
    at: float
    payload: bytes


class Alarm(NamedTuple):
    """Something that was noticed, and stays until it is settled; of a client, or of the site."""

    client: str
    kind: str
    since: float
    words: str

    @property
    def short(self) -> str:
        return _ALARMS[self.kind][0]

    @property
    def fix(self) -> str:
        return _ALARMS[self.kind][1].format(client=self.client)


ABSENT = "absent"
RESTORED, CLONED, COPIED, REPLACED = "restored", "cloned", "copied", "replaced"
_ALARMS = {
    RESTORED: (
        "State of a device lost or restored",
        "Hand it back what it had spent: discreet enroll {client} --renew.",
    ),
    CLONED: (
        "A device runs twice",
        "Stop one of them. If one is not yours: discreet enroll {client} --renew.",
    ),
    COPIED: ("The site is served twice", "Stop the other one, and delete the copy."),
    REPLACED: (
        "The database was replaced",
        "If it was not meant, bring back what is missing: discreet restore COPY. See "
        "docs/network.md.",
    ),
}


class Sample(NamedTuple):
    """A value of health at a moment; the value is anything that JSON can hold."""

    at: float
    value: Any


def slope(first: Sample, last: Sample) -> float | None:
    """Return how fast a count rises between two moments, per second; None if it is not known."""
    values = first.value, last.value
    if not all(isinstance(each, int | float) for each in values) or last.at <= first.at:
        return None
    return max(0.0, float(last.value - first.value) / (last.at - first.at))


@dataclass
class Batch:
    """What is committed together; ``at``: when, for the refusals."""

    messages: list[StoredMessage] = field(default_factory=list)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    quarantine: list[Refused] = field(default_factory=list)
    at: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Outcome:
    """The result for the messages of a batch, by their places in it.

    ``repeated``: stored before, with the same content: to be acknowledged again, counted once.
    ``conflicting``: another content is stored under the same key: refused. ``excess``: the device
    has more messages for the round than it may have: refused.
    """

    repeated: Set[int] = frozenset()
    conflicting: Set[int] = frozenset()
    excess: Set[int] = frozenset()

    @property
    def refused(self) -> Set[int]:
        return self.conflicting | self.excess

    def reasons(self, messages: Sequence[StoredMessage]) -> Counter[tuple[str, str]]:
        """Return how often each client is counted for what."""
        found: Counter[tuple[str, str]] = Counter()
        for reason, places in (
            ("replay", self.repeated),
            ("conflict", self.conflicting),
            ("excess", self.excess),
        ):
            found.update((messages[place].client, reason) for place in places)
        return found


# --- Workers -------------------------------------------------------------------------------


_MARK = "worker "


def note_name(worker: str) -> str:
    """Return the name under which a worker stores its state."""
    return _MARK + worker


def latest_notes(health: Mapping[str, Sample], since: float) -> list[dict[str, Any]]:
    """Return what each worker has noted of itself since a moment; of one alone, what there is."""
    notes = [
        dict(sample.value)
        for name, sample in health.items()
        if name.startswith(_MARK) and sample.at >= since and isinstance(sample.value, dict)
    ]
    return notes or [{name: sample.value for name, sample in health.items()}]


def silent_workers(
    names: Iterable[str], health: Mapping[str, Sample], since: float
) -> tuple[str, ...]:
    """Return the workers that have noted nothing since a moment."""
    notes = ((name, health.get(note_name(name))) for name in names)
    return tuple(name for name, sample in notes if sample is None or sample.at < since)
