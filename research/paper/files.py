"""Find the paper's data files, or download them and check that they are the right ones.

A file may come from anywhere, so nothing of it is believed: what is downloaded has to have
the known size and SHA-256 before it gets its name, and what is read is bounded.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import pooch

from discreet.errors import InputError

FOLDER_VARIABLE = "DISCREET_DATA"
TIMEOUT = 30.0
"""Seconds of silence after which a download is given up."""
# What a download ends in that fails: no connection, another file, or an archive that is damaged,
# lacks the member, is locked or packed in an unknown way.
_FAILURES = (OSError, ValueError, zipfile.BadZipFile, zlib.error, KeyError, RuntimeError)


@dataclass(frozen=True)
class Source:
    """Where a file can be had, and how to recognise it.

    ``size``: bytes of the file itself. ``sha256``: in hexadecimal. ``member``: the file's name in
    the ZIP archive that the address gives.
    """

    url: str
    size: int
    sha256: str
    member: str | None = None


SOURCES: dict[str, Source] = {
    "adult.data": Source(
        "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data",
        3_974_305,
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    "S2-Drill.dat": Source(
        "https://archive.ics.uci.edu/static/public/226/opportunity+activity+recognition.zip",
        54_381_079,
        "98e7ed170e860457198fd1346f4b284d7ae5983e5de78d3924273ec47fa8e78f",
        member="OpportunityUCIDataset/dataset/S2-Drill.dat",
    ),
}
"""What can be downloaded; the other files have to be there already."""


def find_file(
    name: str, given: str | PathLike[str] | None = None, *, download: bool = True
) -> Path:
    """Return the path of a data file, plain or with ``.gz`` at its end.

    Looked for in this order: what was given, the folder that ``DISCREET_DATA`` names, the
    cache, and the place that the file is published at.

    ``name``: such as "adult.data". ``given``: the file, or a folder that has it. Then nowhere else
    is looked. ``download``: whether the last of the places may be asked. Raises InputError: if it
    is nowhere, or the download is not the file that it should be.
    """
    if given is not None:
        return _given_file(name, Path(given))
    found = next(_in_folder(name, _named_folder()), None)
    if found is not None:
        return found
    if name in SOURCES:
        cached = cache_folder() / name
        if cached.is_file() and pooch.file_hash(cached) == SOURCES[name].sha256:
            return cached
        if download:
            return fetch(name, SOURCES[name], cache_folder())
    raise InputError(
        f"{name}: not found. Put it into a folder and name that folder in {FOLDER_VARIABLE}."
    )


def _given_file(name: str, given: Path) -> Path:
    if not given.is_dir():
        if not given.exists():
            raise InputError(f"{given}: no such file or folder. Check the path.")
        return given
    found = next(_in_folder(name, given), None)
    if found is None:
        raise InputError(f"{given}: neither {name} nor {name}.gz is in this folder.")
    return found


def _in_folder(name: str, folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield from (file for file in (folder / name, folder / f"{name}.gz") if file.is_file())


def _named_folder() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    if named and not Path(named).is_dir():
        raise InputError(f"{FOLDER_VARIABLE} names {named!r}, which is no folder.")
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder for downloads, as the platform has it."""
    return Path(pooch.os_cache("discreet"))


# --- Downloading ---------------------------------------------------------------------------


def fetch(name: str, source: Source, folder: Path) -> Path:
    """Download a file into a folder, whole and checked or not at all.

    Raises InputError: in one line, with the address and what to do instead.
    """
    pooch.get_logger().setLevel("WARNING")
    known, download = f"sha256:{source.sha256}", partial(_download, source)
    try:
        return Path(pooch.retrieve(source.url, known, name, folder, downloader=download))
    except _FAILURES as error:
        raise InputError(
            f"{name}: could not be had from {source.url} ({_reason(error)}). "
            f"Get {name} by hand and name its folder in {FOLDER_VARIABLE}."
        ) from None


def _reason(error: Exception) -> str:
    """Return one line; what requests wraps twice has its own words inside."""
    inner = getattr(error.args[0] if error.args else error, "reason", error)
    return " ".join(str(inner).split())[:300]


def _download(source: Source, url: str, out: str, _: Any) -> None:
    """Write what the address gives, or one member of it, to a file that pooch then checks."""
    get = pooch.HTTPDownloader(timeout=TIMEOUT)
    if source.member is None:
        get(url, out, None)
    else:
        with tempfile.TemporaryDirectory(dir=Path(out).parent) as scratch:
            archive = Path(scratch) / "archive.zip"
            get(url, str(archive), None)
            _unpack(source, source.member, archive, Path(out))
    _check_size(source, Path(out).stat().st_size)


def _unpack(source: Source, member: str, archive: Path, out: Path) -> None:
    with zipfile.ZipFile(archive) as files:
        _check_size(source, files.getinfo(member).file_size)  # which bounds what is unpacked
        with files.open(member) as stream, out.open("wb") as unpacked:
            shutil.copyfileobj(stream, unpacked)


def _check_size(source: Source, size: int) -> None:
    if size != source.size:
        raise ValueError(f"it has {size} bytes, not the {source.size} of the paper's file")


# --- Reading -------------------------------------------------------------------------------


def read_text(file: Path, max_bytes: int) -> str:
    """Return the text of a file, gzipped if its name ends in ``.gz``.

    Raises InputError: if it cannot be read, is damaged, too long, or no text.
    """
    try:
        with _open(file) as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise InputError(f"{file}: has more than {max_bytes} bytes of text. Give the original.")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"{file}: byte {byte:#04x} is not UTF-8. Download it again.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}). Download it again.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}).") from None


def _open(file: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")
