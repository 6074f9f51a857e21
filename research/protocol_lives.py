"""Lives of a device, for the test vectors: what it does, and what docs/protocol.md has it do.

A plain model of the page's sections on rounds, outbox and clocks, without storage, bytes or draws.
It looks at its clocks every tenth of a second; clients may look less often, so that no life depends
on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

EPOCH, INTERVAL = 1_700_000_000, 4000  # seconds of 1970; milliseconds
_BACK, _ANSWERS, _OFFLINE = 3, 5, 600_000
_LOOK, _SLOT, _SLACK = 100, 200, 300
_RETRY, _LONGEST_RETRY = 2000, 60_000
_STORED, _REFUSED, _STOPPED = 0, 1, 2


class LifeEnrolment(NamedTuple):
    """What of an enrolment counts here. ``keys``: the present one, then the one before it."""

    name: str
    batch: int
    boot: int
    spent: int
    keys: tuple[str, ...]


ONE = LifeEnrolment("one", 1, EPOCH + 100, 250_000, ("first",))
TWO = ONE._replace(name="two", batch=2)
RENEWED = LifeEnrolment("renewed", 1, EPOCH + 500_000, 5_000_000, ("second", "first"))
REPLACED = RENEWED._replace(name="replaced", keys=("second",))
ENROLMENTS = (ONE, TWO, RENEWED, REPLACED)


@dataclass
class _Waiting:
    boot: int
    seq: int
    round: int
    spent: int
    key: str
    hold: int = 0  # when it may be sent, by the clock
    pause: int = _RETRY
    sent: tuple[int, int] | None = None  # between which steady times the next retry is


@dataclass
class Model:
    """A device by the rules of the page. ``slots``: how many messages may wait."""

    slots: int
    clock: int = 0
    steady: int = 0
    up: bool = False
    works: bool = True
    runs: bool = False
    stopped: bool = False
    given_up: int = 0
    refused: int = 0
    enrolment: LifeEnrolment = ONE
    boot: int = 0
    seq: int = 0
    next_round: int = 0  # the first without a message
    reached: int | None = None
    doubt: tuple[int, int, int] | None = None  # seen, for how long, with a connection
    waiting: list[_Waiting] = field(default_factory=list)
    published: list[list[int]] | None = field(default_factory=list)

    def start(self, enrolment: LifeEnrolment, clock: int) -> None:
        self.enrolment, self.clock = enrolment, clock
        self.up = self.stopped = False
        self.runs = self.works
        if not self.runs:
            return
        self.boot = max(enrolment.boot, self.boot + 1, clock // 1000)
        self.seq, self.reached, self.doubt = 0, None, None
        self._drop([each for each in self.waiting if each.key not in enrolment.keys])
        for each in self.waiting:
            each.hold, each.pause, each.sent = 0, _RETRY, None

    def _drop(self, gone: Sequence[_Waiting]) -> None:
        self.waiting = [each for each in self.waiting if each not in gone]
        self.given_up += len(gone)

    def wait(self, milliseconds: int) -> None:
        by_chance = self._retries_now
        for _ in range(milliseconds // _LOOK):
            self.clock, self.steady = self.clock + _LOOK, self.steady + _LOOK
            self.look()
        if self.up and (by_chance or self._retries_now):
            self.published = None

    @property
    def _retries_now(self) -> bool:
        """Whether chance decides if some message has been sent again by now."""
        return any(each.sent and each.sent[0] < self.steady < each.sent[1] for each in self.waiting)

    def look(self) -> None:
        if not self.stopped:
            self._follow()
        if self.up and not self.stopped:
            self._publish()

    # -- rounds and clocks --

    def _follow(self) -> None:
        present = (self.clock - 1000 * EPOCH) // INTERVAL
        if present < 0:
            return
        if max(self.reached or 0, self.next_round) > present + self.enrolment.batch + _BACK:
            if self._in_doubt(present):
                return
            self._turn_back(present)
        elif self.doubt:
            self.reached = None
        self.doubt = None
        if self.reached is None:
            self.reached = present
        if present > self.reached:
            first = self.reached - self.reached % self.enrolment.batch
            self.reached = present
            if first >= self.next_round and present >= first + self.enrolment.batch and self.works:
                self._draw(first)

    def _in_doubt(self, present: int) -> bool:
        seen, long, connected = self.doubt or (self.steady, 0, 0)
        passed = self.steady - seen
        self.doubt = self.steady, long + passed, connected + (passed if self.up else 0)
        later = any(each.round >= present for each in self.waiting)
        return later and self.doubt[1] < _OFFLINE and self.doubt[2] < _ANSWERS * INTERVAL

    def _turn_back(self, present: int) -> None:
        self._drop([each for each in self.waiting if each.round >= present])
        self.boot, self.seq = self.boot + 1, 0
        self.next_round, self.reached = present, present

    def _draw(self, first: int) -> None:
        batch = self.enrolment.batch
        self._drop(self.waiting[: max(0, len(self.waiting) + 1 - self.slots)])
        end = 1000 * EPOCH + (first + batch) * INTERVAL
        numbers = (self.boot, self.seq, first, self.enrolment.spent, self.enrolment.keys[0])
        self.waiting.append(_Waiting(*numbers, hold=end + min(INTERVAL // 4, _SLOT)))
        self.seq, self.next_round = self.seq + 1, first + batch

    # -- outbox --

    def connect(self) -> None:
        self.up = True
        for each in self.waiting:
            each.sent = None

    def _publish(self) -> None:
        for each in self.waiting:
            if 0 < each.hold - self.clock <= _SLOT:
                continue
            begin, end = each.sent or (self.steady, self.steady)
            if self.steady < end:
                continue
            if self.published is not None:
                self.published.append([each.boot, each.seq])
            each.sent = begin + each.pause // 2, end + each.pause + _SLACK
            each.pause = min(_LONGEST_RETRY, 2 * each.pause)

    def answer(self, entries: Sequence[Sequence[int]]) -> None:
        if not self.works:
            return
        for boot, first, count, status in entries:
            covered = [
                each
                for each in self.waiting
                if each.boot == boot and first <= each.seq < first + count
            ]
            self.waiting = [each for each in self.waiting if each not in covered]
            self.refused += len(covered) if status != _STORED else 0
            self.stopped |= status == _STOPPED and boot == self.boot

    def take(self) -> dict[str, Any] | None:
        """Return what a step has led to, and forget what is counted by step.

        None while the device does not run, because a boot number could not be stored.
        """
        if not self.runs:
            return None
        waiting = [[each.boot, each.seq, each.round, each.spent] for each in self.waiting]
        found: dict[str, Any] = {"waiting": waiting}
        found["published"] = None if self.published is None else sorted(self.published)
        found |= {"given_up": self.given_up, "refused": self.refused, "stopped": self.stopped}
        self.published, self.given_up, self.refused = [], 0, 0
        return found


# --- Lives ---------------------------------------------------------------------------------


Step = dict[str, Any]


def at(number: int, offset: int = 1000) -> int:
    """Return the milliseconds of a moment in a round."""
    return 1000 * EPOCH + number * INTERVAL + offset


def _start(number: int, offset: int = 1000, enrolment: LifeEnrolment = ONE) -> Step:
    return {"do": "start", "enrolment": enrolment.name, "clock": at(number, offset)}


def _wait(milliseconds: int) -> Step:
    return {"do": "wait", "ms": milliseconds}


def _clock(number: int, offset: int) -> Step:
    return {"do": "set_clock", "clock": at(number, offset)}


def _storage(works: bool) -> Step:
    return {"do": "storage", "works": works}


def _answer(*entries: tuple[int, int, int, int]) -> Step:
    return {"do": "answer", "entries": [list(each) for each in entries]}


_UP, _DOWN = {"do": "connect"}, {"do": "disconnect"}
_ROUND, _SOON = _wait(INTERVAL), _wait(500)
_B = EPOCH + 4 * 100 + 1  # boot of a start in round 100, one second in


def _outbox_lives() -> Iterator[tuple[str, int, list[Step]]]:
    yield (
        "stored, sent, acknowledged",
        64,
        [_start(100), _UP, _ROUND, _answer((_B, 0, 1, _STORED)), _ROUND, _SOON],
    )
    yield (
        "an acknowledgement is lost: the message is sent again, and forgotten once",
        64,
        [
            _start(100),
            _UP,
            _wait(3000),
            _wait(1000),
            _wait(1600),
            _answer((_B, 0, 1, _STORED)),
            _answer((_B, 0, 1, _STORED)),
            _wait(700),
        ],
    )
    yield (
        "killed without a connection: what waits is sent after the restart, oldest first",
        64,
        [
            _start(100),
            _ROUND,
            _ROUND,
            _start(102),
            _UP,
            _SOON,
            _ROUND,
            _answer((_B, 0, 2**32 - 1, _STORED)),
            _DOWN,
            _ROUND,
        ],
    )
    yield (
        "killed between storing and sending: sent after the restart, and not drawn again",
        64,
        [_start(100), _UP, _wait(3100), _start(101, 100), _UP, _SOON, _DOWN, _ROUND],
    )
    yield (
        "a new connection: all that waits is sent again",
        64,
        [_start(100), _UP, _wait(3300), _DOWN, _wait(100), _UP, _wait(200)],
    )
    yield (
        "no acknowledgement: all is sent again, after one to two seconds",
        64,
        [
            _start(100),
            _ROUND,
            _ROUND,
            _ROUND,
            _UP,
            _wait(700),
            _wait(1800),
            _answer((_B, 0, 3, _STORED)),
            _wait(300),
        ],
    )
    yield (
        "refusals, unknown numbers and unknown statuses",
        64,
        [_start(100)]
        + [_ROUND] * 5
        + [_answer((_B, 1, 1, _REFUSED)), _answer((_B, 3, 1, 7)), _answer((_B + 1, 0, 9, _STORED))]
        + [_answer((_B, 70, 3, _STORED)), _answer((_B, 0, 0, _STORED))]
        + [_answer((_B, 0, 3, _STORED), (_B, 4, 2**32 - 1, _STORED))],
    )
    yield (
        "another device has the enrolment: a former boot is refused, the present one stops",
        64,
        [
            _start(100),
            _ROUND,
            _ROUND,
            _start(102),
            _ROUND,
            _answer((_B, 0, 1, _STOPPED)),
            _ROUND,
            _answer((_B + 8, 0, 1, _STOPPED)),
            _ROUND,
            _UP,
            _SOON,
        ],
    )
    yield (
        "no room: the oldest is dropped",
        4,
        [_start(100)] + [_ROUND] * 6 + [_start(106)] + [_ROUND] * 2,
    )
    yield (
        "no room but where a message was acknowledged: none is dropped",
        4,
        [_start(100)] + [_ROUND] * 4 + [_answer((_B, 2, 1, _STORED)), _ROUND, _ROUND],
    )
    yield (
        "storage that cannot be written: nothing is released or forgotten",
        64,
        [
            _start(100),
            _ROUND,
            _storage(False),
            _ROUND,
            _answer((_B, 0, 1, _STORED)),
            _ROUND,
            _storage(True),
            _answer((_B, 0, 1, _STORED)),
            _start(103),
            _ROUND,
        ],
    )
    yield (
        "storage that fails for one batch: it has no message, and the next one has",
        64,
        [_start(100), _storage(False), _ROUND, _storage(True), _ROUND, _UP, _SOON],
    )
    yield (
        "storage that fails at a start: there is none, and no boot number is used twice",
        64,
        [
            _start(100),
            _ROUND,
            _storage(False),
            _start(100),
            _storage(True),
            _start(100),
            _UP,
            _SOON,
            _DOWN,
            _ROUND,
            _ROUND,
        ],
    )
    yield (
        "a renewed enrolment: what waits under the previous key is sent",
        64,
        [_start(100), _ROUND, _ROUND, _start(102, 1000, RENEWED), _UP, _SOON, _DOWN, _ROUND],
    )
    yield (
        "an enrolment that does not know the key: what waits is dropped",
        64,
        [_start(100), _ROUND, _ROUND, _start(101, 1000, REPLACED), _UP, _SOON, _wait(7500)],
    )


def _clock_lives() -> Iterator[tuple[str, int, list[Step]]]:
    yield (
        "no time yet: nothing is drawn, and what waits is sent",
        64,
        [
            _start(-1000),
            _wait(9000),
            _clock(100, 1000),
            _ROUND,
            _start(-1000),
            _UP,
            _SOON,
            _DOWN,
            _clock(110, 1000),
            _ROUND,
        ],
    )
    yield (
        "a step forward: the round that was cut has its message, those skipped have none",
        64,
        [_start(100), _ROUND, _wait(2500), _clock(200, 1000), _wait(1000), _wait(3000)],
    )
    yield (
        "a step back by three rounds and a batch is waited out",
        64,
        [
            _start(100),
            _UP,
            _ROUND,
            _answer((_B, 0, 1, _STORED)),
            _DOWN,
            _wait(2500),
            _clock(97, 3500),
            _wait(12_000),
            _wait(5000),
        ],
    )
    yield (
        "a step back by one more is not",
        64,
        [
            _start(100),
            _UP,
            _ROUND,
            _answer((_B, 0, 1, _STORED)),
            _wait(2500),
            _clock(96, 1000),
            _DOWN,
            _wait(1500),
            _wait(2500),
        ],
    )
    yield (
        "a restart a round back: no second message for a round",
        64,
        [_start(100), _ROUND, _ROUND, _start(100), _ROUND, _ROUND, _ROUND],
    )
    yield (
        "ahead before, and nothing waits: the present round follows at once",
        64,
        [
            _start(1000),
            _UP,
            _ROUND,
            _answer((EPOCH + 4001, 0, 1, _STORED)),
            _wait(2500),
            _clock(100, 1000),
            _DOWN,
            _wait(1500),
            _wait(2500),
        ],
    )
    yield (
        "ahead before, with a connection: what waits is dropped after five rounds",
        64,
        [_start(1000), _ROUND, _ROUND, _start(100), _UP, _wait(19_000), _wait(3000), _wait(2000)],
    )
    yield (
        "ahead before, without a connection: what waits is dropped after ten minutes",
        64,
        [_start(1000), _ROUND, _ROUND, _start(100), _wait(599_000), _wait(3000), _wait(2000)],
    )
    yield (
        "ahead before: what waits for rounds that have begun is kept",
        64,
        [
            _start(100),
            _ROUND,
            _wait(2500),
            _clock(1000, 1000),
            _ROUND,
            _wait(2500),
            _clock(101, 1000),
            _UP,
            _wait(19000),
            _wait(3500),
            _DOWN,
            _wait(2000),
        ],
    )
    yield (
        "behind after a restart, and set without a connection: nothing is dropped",
        64,
        [_start(100), _ROUND, _ROUND, _start(50), _wait(30_000), _clock(112, 1000), _ROUND],
    )
    yield (
        "behind after a restart: what the site takes is not dropped",
        64,
        [
            _start(100),
            _ROUND,
            _ROUND,
            _start(50),
            _UP,
            _SOON,
            _answer((_B, 0, 2, _STORED)),
            _wait(1500),
            _DOWN,
            _wait(2000),
        ],
    )
    yield (
        "batches: a start within one sends it; after a step back the next whole one follows",
        64,
        [
            _start(101, 1000, TWO),
            _ROUND,
            _wait(8000),
            _answer((_B + 4, 0, 2, _STORED)),
            _wait(2500),
            _clock(51, 1000),
            _wait(8000),
            _wait(4000),
        ],
    )
    yield (
        "batches: no second message for one that has it, whatever round it begins with",
        64,
        [_start(102, 1000, TWO), _wait(8000), _start(103, 1000, TWO), _wait(8000), _ROUND],
    )
    within = [_start(100, 1000, TWO), _UP, _wait(8000), _answer((_B, 0, 1, _STORED)), _wait(5000)]
    yield (
        "batches: a step back by three rounds and a batch is waited out, and the batch goes on",
        64,
        [*within, _DOWN, _clock(98, 2000), _wait(20_000), _wait(2500)],
    )
    yield (
        "batches: a step back by one more, from within a batch that has no message, is not",
        64,
        [*within, _DOWN, _clock(97, 500), _wait(3000), _wait(4000), _wait(6000)],
    )
    yield (
        "a time before the epoch while it runs",
        64,
        [
            _start(100),
            _ROUND,
            _wait(2500),
            _clock(-5, 1000),
            _wait(9000),
            _clock(104, 1000),
            _wait(1000),
            _wait(3000),
        ],
    )


def _lived(name: str, slots: int, steps: Sequence[Step]) -> dict[str, Any]:
    model, found = Model(slots), []
    for step in steps:
        act = step["do"]
        if act == "start":
            by_name = {each.name: each for each in ENROLMENTS}
            model.start(by_name[step["enrolment"]], step["clock"])
        elif act == "wait":
            model.wait(step["ms"])
        elif act == "set_clock":
            model.clock = step["clock"]
        elif act == "answer":
            model.answer(step["entries"])
        elif act == "storage":
            model.works = step["works"]
        elif act == "connect":
            model.connect()
        else:
            model.up = False
        found.append({**step, "then": model.take()})
    return {"life": name, "slots": slots, "steps": found}


def lives(what: str) -> list[dict[str, Any]]:
    """Return the lives for ``"outbox"`` or ``"clocks"``, each step with what it leads to."""
    made = _outbox_lives() if what == "outbox" else _clock_lives()
    return [_lived(name, slots, steps) for name, slots, steps in made]
