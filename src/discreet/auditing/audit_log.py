"""Which held-out rows have been audited before, and with which mapping.

Rows vouch once. Whoever learns again and audits with the same rows until a limit is met has
chosen by those rows, and the bounds do not pay for the choice. So each audit of held-out rows from
the command line is noted in a file of the user's, by digests that tell nothing about the rows,
and the next one says how many came before it. A comparison of two mappings on such rows counts as
an audit of both. Audits elsewhere, or by others, are not known.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import Source

_FILE = "audits.jsonl"
_MOST_BYTES = 1 << 20  # of the log that are looked at, the newest


@dataclass(frozen=True)
class AuditEntry:
    """One audit: which held-out rows, which mapping, which seed."""

    rows: str
    mapping: str
    seed: int

    @classmethod
    def of(cls, mapping: Mapping, source: Source, seed: int) -> AuditEntry:
        """Return the entry for the rows that were held out of this source."""
        split = "" if source.split is None else source.split.model_dump_json()
        rows = hashlib.sha256(f"{source.digest}\n{split}".encode()).hexdigest()
        return cls(rows, mapping.id, seed)


def log_file() -> Path | None:
    """Return where audits are noted: in ``DISCREET_STATE``, or where the system keeps state."""
    try:
        given = os.environ.get("DISCREET_STATE")
        base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
        home = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:  # no home
        return None
    return (Path(given) if given else home / "discreet") / _FILE


def say_before(entry: AuditEntry) -> str:
    """Return what earlier audits with the same rows mean for this one, or nothing."""
    before = {each for each in _read() if each.rows == entry.rows} - {entry}
    others = {each.mapping for each in before} - {entry.mapping}
    if others:
        plural = "another mapping" if len(others) == 1 else f"{len(others)} other mappings"
        return (
            f"the same held-out rows have been audited before, with {plural}; the confidence does "
            "not pay for a choice among them"
        )
    if before:
        return (
            f"the same held-out rows have been audited before with {len(before)} other seeds; the "
            "confidence does not pay for a choice among them"
        )
    return ""


NOT_NOTED = "whether the same held-out rows have been audited before could not be checked"


def note_audit(entry: AuditEntry) -> bool:
    """Add an audit to the log, and return whether that was possible."""
    path = log_file()
    if path is None:
        return False
    line = json.dumps({"rows": entry.rows, "mapping": entry.mapping, "seed": entry.seed})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
    except OSError:
        return False
    return True


def _read() -> list[AuditEntry]:
    """Return the entries of the log; lines that are none are passed over."""
    path = log_file()
    try:
        data = b"" if path is None else path.read_bytes()[-_MOST_BYTES:]
    except OSError:
        return []
    found = []
    for line in data.splitlines():
        try:
            part = json.loads(line)
            found.append(AuditEntry(str(part["rows"]), str(part["mapping"]), int(part["seed"])))
        except (ValueError, TypeError, KeyError):
            continue
    return found
