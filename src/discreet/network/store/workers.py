"""The last word of each worker of a fusion centre, where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from discreet.network.store.rows import Sample


def note_name(worker: str) -> str:
    """Return the name under which a worker notes that it is there."""
    return f"worker {worker}"


def silent_workers(
    names: Iterable[str], health: Mapping[str, Sample], since: float
) -> tuple[str, ...]:
    """Return the workers that have noted nothing since a moment."""
    notes = ((name, health.get(note_name(name))) for name in names)
    return tuple(name for name, sample in notes if sample is None or sample.at < since)
