"""A finding: what was checked, the result, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    ``subject``: such as "clock". ``level``: a failure keeps the site from working; a warning will,
    or needs attention. ``words``: what was seen. ``fix``: what to do; empty if all is well.
    """

    subject: str
    level: Level
    words: str
    fix: str = ""


def ok(subject: str, words: str) -> Finding:
    """Return that all is well."""
    return Finding(subject, "ok", words)


def warning(subject: str, words: str, fix: str) -> Finding:
    """Return something that needs attention."""
    return Finding(subject, "warning", words, fix)


def failure(subject: str, words: str, fix: str) -> Finding:
    """Return something that has to be fixed."""
    return Finding(subject, "failure", words, fix)
