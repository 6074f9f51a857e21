"""Find the paper's data files, or download them and check that they are the right ones.

A file may come from anywhere, so nothing of it is believed: what is downloaded has to have
the known size and SHA-256 before it gets its name, and what is read is bounded.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from discreet.errors import InputError

FOLDER_VARIABLE = "DISCREET_DATA"
TIMEOUT = 30.0
"""Seconds of silence after which a download is given up."""
_BLOCK = 2**20
_LARGEST_ARCHIVE = 2**29
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Source:
    """Where a file can be had, and how to recognise it.

    Attributes
    ----------
    url : str
    size : int
        Bytes of the file itself.
    sha256 : str
        In hexadecimal.
    member : str, optional
        The file's name in the ZIP archive that the address gives.
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
    folder ``shared/data`` beside a checkout of this project, the cache, and the place that
    the file is published at.

    Parameters
    ----------
    name : str
        Such as "adult.data".
    given : path-like, optional
        The file, or a folder that has it. Then nowhere else is looked.
    download : bool, default=True
        Whether the last of the places may be asked.

    Raises
    ------
    InputError
        If it is nowhere, or the download is not the file that it should be.
    """
    if given is not None:
        return _given_file(name, Path(given))
    for folder in _folders():
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return file
    if name in SOURCES:
        cached = cache_folder() / name
        if cached.is_file() and _digest(cached) == SOURCES[name].sha256:
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
    found = next((file for file in (given / name, given / f"{name}.gz") if file.is_file()), None)
    if found is None:
        raise InputError(f"{given}: neither {name} nor {name}.gz is in this folder.")
    return found


def _folders() -> Iterator[Path]:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise InputError(f"{FOLDER_VARIABLE} names {named!r}, which is no folder.")
        yield Path(named)
    root = Path(__file__).resolve().parents[3]
    if (root / "pyproject.toml").is_file():  # a checkout, not an installed package
        yield root.parent / "shared" / "data"


def cache_folder() -> Path:
    """Return the folder for downloads, as the platform has it."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named and Path(named).is_absolute():  # a relative one is to be ignored, says the standard
        return Path(named) / "discreet"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "discreet" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "discreet"
    return Path.home() / ".cache" / "discreet"


# --- Downloading ---------------------------------------------------------------------------


def fetch(name: str, source: Source, folder: Path) -> Path:
    """Download a file into a folder, whole and checked or not at all.

    Raises
    ------
    InputError
        In one line, with the address and what to do instead.
    """
    advice = f"Get {name} by hand and name its folder in {FOLDER_VARIABLE}."
    _check_address(source.url, advice)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _scratch(folder) as scratch:
            _download(source, scratch, advice)
            scratch.replace(folder / name)
    except (URLError, HTTPException, OSError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the answer
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(
            f"{name}: could not be had from {source.url} ({_one_line(reason)}). {advice}"
        ) from None
    return folder / name


def _download(source: Source, scratch: Path, advice: str) -> None:
    limit = source.size if source.member is None else _LARGEST_ARCHIVE
    with _open_url(source.url, advice) as answer, scratch.open("wb") as out:
        digest = _copy(answer, out, limit, source.url, advice)
    if source.member is not None:
        digest = _unpack(source, scratch, advice)
    size = scratch.stat().st_size
    if (size, digest) != (source.size, source.sha256):
        raise InputError(
            f"{source.url}: gave {size} bytes with SHA-256 {digest[:12]}..., not the "
            f"{source.size} with {source.sha256[:12]}... that the paper's file has. {advice}"
        )


def _unpack(source: Source, archive: Path, advice: str) -> str:
    """Put one member of an archive in the archive's place."""
    assert source.member is not None
    with _scratch(archive.parent) as scratch:
        try:
            with (
                zipfile.ZipFile(archive) as files,
                files.open(source.member) as member,
                scratch.open("wb") as out,
            ):
                digest = _copy(member, out, source.size, source.url, advice)
        except (KeyError, RuntimeError, NotImplementedError) as error:  # absent, locked, unknown
            raise InputError(
                f"{source.url}: {source.member} cannot be unpacked ({_one_line(error)}). {advice}"
            ) from None
        scratch.replace(archive)
    return digest


def _copy(stream: IO[bytes], out: IO[bytes], limit: int, where: str, advice: str) -> str:
    digest, done = hashlib.sha256(), 0
    while block := stream.read(_BLOCK):
        done += len(block)
        if done > limit:
            raise InputError(f"{where}: gives more than the {limit} bytes expected. {advice}")
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Make a file to write to, and remove it unless it was moved to its place."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows no redirection to an address without encryption."""

    def __init__(self, advice: str) -> None:
        self.advice = advice

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        try:
            _check_address(newurl, self.advice)
        except InputError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open_url(url: str, advice: str) -> Any:
    return build_opener(_SafeRedirects(advice)).open(url, timeout=TIMEOUT)


def _check_address(url: str, advice: str) -> None:
    parts = urlsplit(url)
    # Loopback cannot be listened to from outside; the tests use it.
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InputError(f"{url}: only https is used for downloads. {advice}")


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _one_line(reason: object) -> str:
    return " ".join(str(reason).split())[:200]


# --- Reading -------------------------------------------------------------------------------


def read_text(file: Path, max_bytes: int) -> str:
    """Return the text of a file, gzipped if its name ends in ``.gz``.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, too long, or no text.
    """
    try:
        with _open(file) as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise InputError(f"{file}: has more than {max_bytes} bytes of text. Give the original.")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"{file}: byte {byte:#04x} is not UTF-8 text. Get it anew.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}). Get it anew.") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}).") from None


def _open(file: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(file) if file.suffix == ".gz" else file.open("rb")
