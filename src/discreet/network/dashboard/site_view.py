"""The files of a site as the dashboard sees them, read again when they change.

All of them may change while the dashboard runs. A file that cannot be read is a finding on the
page, not the end of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from discreet.auditing.audit_file import AuditSummary, load_audit
from discreet.auditing.recheck import load_state, load_watch
from discreet.data.columns import written
from discreet.errors import DiscreetError
from discreet.export.neutral import Policy, sensor_table
from discreet.frontiers.results import Frontier
from discreet.mapping.mapping import Mapping
from discreet.network.dashboard.guarantee import Guarantee, assess, assess_drift
from discreet.network.health import BAD, Finding
from discreet.network.observed import DeployedFiles
from discreet.network.site.settings import Clients, SiteFiles, file_stamp, load_devices, load_site

_T = TypeVar("_T")


class SiteView:
    """What the dashboard knows of a site besides its database.

    Raises InputError, MappingFileError: if the settings or the mapping cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.files = SiteFiles(folder)
        self.folder = self.files.folder
        self.deployed = DeployedFiles(folder)
        self._read()
        there = self.files.devices.exists()  # not in a site of an earlier version
        file = self.files.devices if there else self.files.clients
        self._clients = _Watched(file, lambda _: load_devices(folder), needed=True)
        self._audit = _Watched(self.files.audit, load_audit)
        self._recheck = _Watched(self.files.recheck, load_state)
        self._drift = _Watched(self.files.drift, load_watch)
        self._frontier = _Watched(self.files.frontier, Frontier.load)

    def _read(self) -> None:
        self._runs = self.deployed()
        self.settings = load_site(self.folder)
        self.mapping = Mapping.load(self.folder / self.settings.mapping)
        self.classes = tuple(written(each) for each in self.mapping.public.classes)
        self.tables = {
            each.name: sensor_table(self.mapping.id, each, Policy())
            for each in self.mapping.sensors
        }

    def refresh(self) -> bool:
        """Read settings and mapping again if they have changed; return whether they have."""
        if self.deployed().runs_as(self._runs):
            return False
        with suppress(DiscreetError):  # changed once more meanwhile
            self._read()
        return True

    def clients(self) -> Clients:
        """Return the clients; none if the file cannot be read (see ``problems``)."""
        return self._clients.value or Clients()

    def audit(self) -> AuditSummary | None:
        """Return the audit that the certificate rests on."""
        return self._audit.value

    def frontier(self) -> Frontier | None:
        """Return the trade-off that the mapping was chosen from."""
        return self._frontier.value

    def guarantee(self, now: float) -> Guarantee:
        today = datetime.fromtimestamp(now, UTC).date()
        damaged = next((each for each in (self._audit, self._recheck) if each.problem), None)
        return assess(
            self._audit.value,
            self._recheck.value,
            self.mapping,
            self.settings.expires,
            today,
            f"The file {damaged.path.name} cannot be read." if damaged else "",
        )

    def drift(self) -> Finding:
        """Return what days of symbols show without labels."""
        return assess_drift(self._drift.value, self._recheck.value, self.mapping.id)

    def problems(self) -> list[Finding]:
        watched = (self._clients, self._audit, self._recheck, self._frontier)
        damaged = self.deployed.problem
        found = [Finding(BAD, "Settings or mapping cannot be read", damaged, "system")]
        return (found if damaged else []) + [
            # Where the site lies is of no interest on a page.
            Finding(
                BAD,
                f"{each.path.name} cannot be read",
                each.problem.removeprefix(f"{each.path}: "),
                "system",
            )
            for each in watched
            if each.problem
        ]


class _Watched(Generic[_T]):
    """A file's content, read again when the file is another one.

    ``needed``: whether it is a problem if there is none.
    """

    def __init__(
        self, path: Path, load: Callable[[Path], _T | None], *, needed: bool = False
    ) -> None:
        self.path, self._load, self._needed = path, load, needed
        self._stamp: tuple[int, ...] | None = ()
        self._value: _T | None = None
        self._problem = ""

    @property
    def value(self) -> _T | None:
        self._refresh()
        return self._value

    @property
    def problem(self) -> str:
        self._refresh()
        return self._problem

    def _refresh(self) -> None:
        stamp = file_stamp(self.path)
        if stamp == self._stamp:
            return
        value, problem = None, ""
        if stamp is not None or self._needed:
            try:
                value = self._load(self.path)
            except DiscreetError as error:
                problem = str(error)
            except Exception as error:  # what nobody foresaw must not pass for a missing file
                problem = f"{self.path}: is not sound ({type(error).__name__})."
        self._stamp, self._value, self._problem = stamp, value, problem
