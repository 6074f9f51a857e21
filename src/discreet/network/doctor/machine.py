"""The machine: clock, randomness, disk and the privacy of the folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from discreet.export.runtimes.python.discreet_sensor import RandomnessError, check_randomness
from discreet.network.doctor.findings import Finding, failure, ok, warning
from discreet.network.site.settings import Site

_LITTLE, _TOO_LITTLE = 10**9, 10**8  # bytes
_SHARE = 0.05
_SECONDS = 5


def clock(site: Site) -> Iterator[Finding]:
    """Whether the clock is right: rounds and the ends of certificates depend on it."""
    now = datetime.now(UTC)
    shown = now.strftime("%Y-%m-%d %H:%M:%S UTC")
    set_it = "Set the clock and keep it set: timedatectl set-ntp true."
    if now.timestamp() < site.epoch - 60:
        begun = datetime.fromtimestamp(site.epoch, UTC).date()
        yield failure("clock", f"it is {shown}, before the site was made ({begun})", set_it)
        return
    synchronised = _is_synchronised()
    if synchronised is False:
        yield warning("clock", f"it is {shown}, but nothing keeps it set", set_it)
    else:
        seen = "kept by the network" if synchronised else "what keeps it set is not known here"
        yield ok("clock", f"it is {shown}, {seen}")


def _is_synchronised() -> bool | None:
    """Whether systemd reports that the clock is synchronised; None if it cannot be queried."""
    program = shutil.which("timedatectl")
    if program is None:
        return None
    try:
        printed = subprocess.run(
            [program, "show", "--property=NTPSynchronized", "--value"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"yes": True, "no": False}.get(printed)


def randomness() -> Iterator[Finding]:
    """Whether keys and symbols can be drawn."""
    try:
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)
        check_randomness()
    except BlockingIOError:
        yield failure(
            "randomness",
            "the system has not gathered enough randomness yet",
            "Wait a minute; on a machine without a hardware source install rng-tools or haveged.",
        )
    except (RandomnessError, OSError) as error:
        yield failure(
            "randomness",
            str(error),
            "Do not run sensors or make keys on this machine until its source is repaired.",
        )
    else:
        yield ok("randomness", "the system's source answers and is not stuck")


def disk(folder: Path) -> Iterator[Finding]:
    """Whether there is room, and whether it can be written to."""
    place = folder / "fusion"
    try:
        with tempfile.TemporaryFile(dir=place) as trial:
            trial.write(b"x" * 4096)
            trial.flush()
            os.fsync(trial.fileno())
        room = shutil.disk_usage(place)
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "Make room, or let the site's user write there."
        yield failure("disk", f"{place} cannot be written ({reason})", fix)
        return
    words = f"{room.free / 1e9:.1f} GB of {room.total / 1e9:.1f} GB free"
    fix = "Make room, or move the database to a larger disk."
    if room.free < _TOO_LITTLE:
        yield failure("disk", words, fix)
    elif room.free < _LITTLE or room.free < _SHARE * room.total:
        yield warning("disk", words, fix)
    else:
        yield ok("disk", words)


def privacy(folder: Path) -> Iterator[Finding]:
    """Whether somebody else on the machine can read keys."""
    if os.name != "posix":
        return
    open_to_others = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_symlink() and _is_open(path, folder)
    )
    if open_to_others and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield failure(
            "privacy",
            f"others on this machine can read {open_to_others[0]}"
            + (f" and {len(open_to_others) - 1} more" if len(open_to_others) > 1 else ""),
            f"Run: chmod -R go= {folder}",
        )
    else:
        yield ok("privacy", "only the owner can read the site")


def _is_open(path: Path, folder: Path) -> bool:
    try:
        about = path.stat()
    except FileNotFoundError:  # running services create and delete files
        return False
    return stat.S_ISREG(about.st_mode) and bool(about.st_mode & 0o044)
