"""Files of the runtimes, which are data of this package."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

_RUNTIMES = files("discreet.export") / "runtimes"


def runtime(path: str) -> bytes:
    """Return a file under ``runtimes/``."""
    return _RUNTIMES.joinpath(path).read_bytes()


def runtime_folder(path: str) -> dict[str, bytes]:
    """Return every file below a folder under ``runtimes/``, by its path there."""
    return dict(_walk(_RUNTIMES.joinpath(path), ""))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.is_file() and not each.name.endswith(".pyc"):
            found.append((prefix + each.name, each.read_bytes()))
    return found
