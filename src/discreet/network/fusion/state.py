"""What the fusion centre knows about itself: counters and states, for ``/metrics`` and ``/health``.

Nothing here is told apart by symbol, reading or decision.
"""

from __future__ import annotations

import json
import resource
import threading
import time
from collections import Counter
from typing import Any

_METRICS = {
    "messages": ("counter", "Messages stored."),
    "readings": ("counter", "Symbols stored."),
    "commits": ("counter", "Commits to the database."),
    "decisions": ("counter", "Rounds closed."),
    "shed": (
        "counter",
        "Messages that the broker dropped for want of room; each worker counts all.",
    ),
    "queue": ("gauge", "Messages that wait for their commit."),
    "lag_seconds": ("gauge", "Mean time from arrival to acknowledgement, lately."),
    "broker_up": ("gauge", "Whether the broker is there."),
    "database_up": ("gauge", "Whether the database is there."),
    "reported": ("gauge", "Sensors heard in the last closed round."),
    "expected": ("gauge", "Sensors of the mapping."),
    "last_round": ("gauge", "The last closed round."),
    "resident_bytes": ("gauge", "Largest resident memory so far."),
}


class State:
    """Counters and states, changed by several threads."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._values: dict[str, float] = dict.fromkeys(_METRICS, 0)
        self._refused: Counter[str] = Counter()
        self._states: dict[str, dict[str, Any]] = {}
        self.started = time.time()

    def add(self, **amounts: float) -> None:
        """Raise counters."""
        with self._alone:
            for name, amount in amounts.items():
                self._values[name] += amount

    def put(self, **values: float) -> None:
        """Set gauges."""
        with self._alone:
            self._values.update(values)

    def refuse(self, counts: Counter[str]) -> None:
        """Count refused messages by reason."""
        with self._alone:
            self._refused.update(counts)

    def turn(self, part: str, state: str, words: str = "") -> bool:
        """Note the state of a part, such as the database; return whether it is a new one."""
        with self._alone:
            old = self._states.get(part, {})
            if old.get("state") == state:
                old["words"] = words
                return False
            self._states[part] = {"state": state, "since": time.time(), "words": words}
            return True

    def value(self, name: str) -> float:
        """Return a counter or a gauge."""
        with self._alone:
            return self._values[name]

    def summary(self) -> dict[str, Any]:
        """Return everything, for ``/health`` and the store."""
        with self._alone:
            return {
                "started": self.started,
                "parts": {part: dict(state) for part, state in self._states.items()},
                "refused": dict(self._refused),
                **self._values,
            }

    def health(self) -> bytes:
        """Return the page ``/health``."""
        return json.dumps(self.summary()).encode()

    def metrics(self) -> bytes:
        """Return the page ``/metrics``, as Prometheus reads it."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.put(resident_bytes=peak)
        lines = []
        with self._alone:
            for name, (kind, words) in _METRICS.items():
                full = f"discreet_{name}" + "_total" * (kind == "counter")
                lines += [f"# HELP {full} {words}", f"# TYPE {full} {kind}"]
                lines.append(f"{full} {self._values[name]:.10g}")
            lines.append("# HELP discreet_refused_total Messages refused, by reason.")
            lines.append("# TYPE discreet_refused_total counter")
            for reason, count in sorted(self._refused.items()):
                lines.append(f'discreet_refused_total{{reason="{reason}"}} {count}')
        return "\n".join([*lines, ""]).encode()
