"""What a device had reached before it is enrolled again, as the fusion centre has seen it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet.network.site.settings import Clients, Site, SiteFiles
from discreet.network.store import open_reader
from discreet.network.store.connection import StoreError


def floor_of(
    folder: Path, site: Site, clients: Clients, name: str, sensors: Sequence[str]
) -> tuple[int, int] | None:
    """Return the last boot of a device, and what was spent for its sensors; None if not known.

    Whatever device spoke for a sensor before: what it has released about it stays released.
    """
    if site.database.startswith("sqlite:") and not SiteFiles(folder).database_file(site).exists():
        return 0, 0
    before = {
        other
        for other, each in clients.clients.items()
        if other == name or set(each.sensors) & set(sensors)
    }
    reader = open_reader(site.database, folder, site.key)
    try:
        heard = [each for each in reader.clients() if each.client in before]
    except StoreError:
        return None
    finally:
        reader.close()
    boot = max((each.boot for each in heard if each.client == name), default=0)
    return boot, max((each.spent for each in heard), default=0)
