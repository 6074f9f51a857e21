"""The last word of each worker of a fusion centre, where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from discreet.network.store.rows import Sample

_MARK = "worker "


def note_name(worker: str) -> str:
    """Return the name under which a worker notes how it is."""
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
