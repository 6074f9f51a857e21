"""A finding: what was looked at, how it is, and what to do if it is not well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    subject : str
        Such as "clock".
    level : str
        A failure keeps the site from working; a warning will, or is worth a look.
    words : str
        What was seen.
    fix : str
        What to do; empty if all is well.
    """

    subject: str
    level: Level
    words: str
    fix: str = ""


def ok(subject: str, words: str) -> Finding:
    """Return that all is well."""
    return Finding(subject, "ok", words)


def warning(subject: str, words: str, fix: str) -> Finding:
    """Return something worth a look."""
    return Finding(subject, "warning", words, fix)


def failure(subject: str, words: str, fix: str) -> Finding:
    """Return something that has to be mended."""
    return Finding(subject, "failure", words, fix)
