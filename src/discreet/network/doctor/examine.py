"""Look at everything about a site, one thing after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from discreet.network.doctor import broker, certificates, content, machine
from discreet.network.doctor.findings import Finding
from discreet.network.site.settings import load_site


def examine(folder: Path) -> Iterator[Finding]:
    """Yield what is found, as it is found.

    Raises
    ------
    InputError
        If the folder is no site: then there is nothing to look at.
    """
    site = load_site(folder)
    yield from machine.clock(site)
    yield from machine.randomness()
    yield from machine.disk(folder)
    yield from machine.privacy(folder)
    yield from certificates.certificates(folder, site)
    yield from certificates.devices(folder)
    yield from broker.program()
    yield from broker.broker(folder, site)
    yield from content.database(folder, site)
    yield from content.mapping(folder, site)
