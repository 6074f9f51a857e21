"""What may be wrong with a site, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from discreet.network.doctor import content, machine
from discreet.network.doctor.machine import Finding
from discreet.network.site.settings import load_site


def examine(folder: Path) -> Iterator[Finding]:
    """Yield what is found, as it is found.

    Raises InputError: if the folder is no site: then there is nothing to check.
    """
    site = load_site(folder)
    yield from machine.clock(site)
    yield from machine.randomness()
    yield from machine.disk(folder)
    yield from machine.privacy(folder)
    yield from content.certificates(folder, site)
    yield from content.devices(folder)
    yield from machine.program()
    yield from machine.broker(folder, site)
    yield from content.database(folder, site)
    yield from content.mapping(folder, site)
