"""The mapping that a site runs, another one in its place, and those before that devices still have.

A device draws its symbols by the tables in its own file. After a change it goes on with the old
ones until it has been renewed; its messages say so, and both count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.data.columns import written
from discreet.errors import InputError, shown
from discreet.files import PRIVATE, make_folder, write_whole
from discreet.mapping.mapping import Mapping
from discreet.network.site.settings import Site, SiteFiles, load_clients, load_site, locked


@dataclass(frozen=True)
class ChangedMapping:
    """``left``: names of the devices that do not have the tables of the new mapping yet."""

    mapping: Mapping
    left: tuple[str, ...]


def load_mappings(folder: Path, site: Site) -> list[Mapping]:
    """Return the mapping that runs, then the earlier ones, which answer the same question.

    Raises DiscreetError: if one of them cannot be read.
    """
    present = Mapping.load(folder / site.mapping)
    earlier = {file.stem: Mapping.load(file) for file in _earlier(folder)}
    same = (each for each in earlier.values() if _question(each) == _question(present))
    return [present, *(each for each in same if each.id != present.id)]


def change_mapping(folder: Path, file: Path, audit: Path | None = None) -> ChangedMapping:
    """Have a site run another mapping; those that devices still have stay in force.

    A command that is cut short is repeated.

    Raises InputError: nothing has changed then.
    """
    from discreet.network.site.making import checked_audit  # which a fusion centre never needs

    new = Mapping.load(file)
    report = None if audit is None else checked_audit(audit, new)
    with locked(folder):
        site, clients = load_site(folder), load_clients(folder)
        old = Mapping.load(folder / site.mapping)
        if _question(old) != _question(new):
            raise InputError(
                f"the new mapping decides on {_named(new)}, the site on {_named(old)}. Make a new "
                "site for another question: discreet init."
            )
        if new.id != old.id:
            _keep(folder, old, {each.mapping for each in clients.live.values()})
        if report is not None:
            write_whole(SiteFiles(folder).audit, report, PRIVATE)
        if new.id != old.id:
            write_whole(folder / site.mapping, new.dumps().encode(), PRIVATE)
    left = (name for name, each in clients.live.items() if each.mapping not in (None, new.id))
    return ChangedMapping(new, tuple(left))


def _keep(folder: Path, old: Mapping, wanted: set[str | None]) -> None:
    """Keep the mapping that ends, and drop those that no device has any more."""
    make_folder(SiteFiles(folder).mappings, PRIVATE)
    write_whole(SiteFiles(folder).mappings / f"{_stem(old)}.json", old.dumps().encode(), PRIVATE)
    for file in _earlier(folder):
        # What waits on devices may be of the one before: that one stays in any case.
        if file.stem != _stem(old) and Mapping.load(file).id not in wanted:
            file.unlink()


def _earlier(folder: Path) -> list[Path]:
    return sorted(SiteFiles(folder).mappings.glob("*.json"))


def _stem(mapping: Mapping) -> str:
    return mapping.id.removeprefix("sha256:")[:16]


def _question(mapping: Mapping) -> tuple[str, list[str]]:
    """Return the public fact and its classes, in their order."""
    return mapping.public.name, [written(each) for each in mapping.public.classes]


def _named(mapping: Mapping) -> str:
    name, classes = _question(mapping)
    return f"{shown(name)} ({', '.join(map(shown, classes[:5]))})"
