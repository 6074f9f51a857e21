"""The devices of a site: who reports, who is silent, and what each has spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from discreet.network.dashboard.levels import BAD, GOOD, WARN
from discreet.network.site.settings import Client, Site
from discreet.network.store.rows import ClientState, Refusal

MICRO = 1_000_000
UNBOUNDED = 2**32 - 1
_MISSED_ROUNDS = 3
_LEAST_SILENCE = 5.0
_LITTLE_LEFT = 0.1

REPORTING, SILENT, NEVER, REVOKED = "reporting", "silent", "never seen", "revoked"
_LEVELS = {REPORTING: GOOD, SILENT: BAD, NEVER: WARN, REVOKED: ""}


@dataclass(frozen=True)
class Device:
    """One enrolled client.

    Attributes
    ----------
    state : str
        "reporting", "silent", "never seen" or "revoked".
    spent, budget : float or None
        In nats; a budget of None is no limit, a spending of None cannot be bounded.
    cost : float or None
        What one release of a sensor tells at most, the worst of the device; None without a bound.
    refused : int
        Messages that were not accepted.
    foreign : bool
        Whether its tables are of another mapping than the one that runs.
    """

    name: str
    sensors: tuple[str, ...]
    state: str
    last_seen: float | None
    last_round: int | None
    messages: int
    spent: float | None
    budget: float | None
    cost: float | None
    refused: int
    foreign: bool = False

    @property
    def level(self) -> str:
        """How bad the state is; nothing for a device that is meant to be out."""
        return _LEVELS[self.state]

    @property
    def left(self) -> float | None:
        """Nats that may still be released, or None if there is no limit."""
        if self.budget is None:
            return None
        return max(0.0, self.budget - (self.budget if self.spent is None else self.spent))

    @property
    def left_share(self) -> float | None:
        """Share of the budget that is left."""
        return None if self.left is None or not self.budget else self.left / self.budget

    @property
    def budget_level(self) -> str:
        """Bad when no release is left: then the symbols say nothing any more."""
        if self.left_share is None:
            return ""
        if self.is_spent:
            return BAD
        return WARN if self.left_share < _LITTLE_LEFT else GOOD

    @property
    def is_spent(self) -> bool:
        """Whether no release is left; the rest of a budget may be less than one costs."""
        return self.left is not None and (not self.left or self.releases_left == 0)

    @property
    def releases_left(self) -> int | None:
        """How many more releases the budget affords."""
        if self.left is None or not self.cost:
            return None
        return int(self.left / self.cost + 1e-9)


def describe_devices(
    site: Site,
    clients: Mapping[str, Client],
    heard: Iterable[ClientState],
    refusals: Iterable[Refusal],
    costs: Mapping[str, float | None],
    mapping_id: str,
    now: float,
) -> tuple[Device, ...]:
    """Return every device of a site, those in need of a look first.

    Parameters
    ----------
    costs : dict
        Of each sensor of the mapping, what one release tells at most.
    """
    known = {each.client: each for each in heard}
    refused = Counter[str]()
    for each in refusals:
        refused[each.client] += each.times if each.kept_out else 0
    found = [
        replace(
            _device(site, name, client, known.get(name), costs, now),
            refused=refused[name],
            foreign=client.mapping not in (None, mapping_id),
        )
        for name, client in clients.items()
    ]
    order = (SILENT, NEVER, REPORTING, REVOKED)
    return tuple(sorted(found, key=lambda each: (order.index(each.state), each.name)))


def _device(
    site: Site,
    name: str,
    client: Client,
    heard: ClientState | None,
    costs: Mapping[str, float | None],
    now: float,
) -> Device:
    return Device(
        name=name,
        sensors=client.sensors,
        state=_state(site, client, heard, now),
        last_seen=heard.last_seen if heard else None,
        last_round=heard.last_round if heard else None,
        messages=heard.messages if heard else 0,
        spent=_spent(heard),
        budget=client.budget,
        cost=_cost(client.sensors, costs),
        refused=0,
    )


def _state(site: Site, client: Client, heard: ClientState | None, now: float) -> str:
    if client.revoked is not None:
        return REVOKED
    if heard is None:
        return NEVER
    patience = max(_LEAST_SILENCE, _MISSED_ROUNDS * site.interval * client.batch + site.deadline)
    return SILENT if now - heard.last_seen > patience else REPORTING


def _spent(heard: ClientState | None) -> float | None:
    if heard is None:
        return 0.0
    return None if heard.spent >= UNBOUNDED else heard.spent / MICRO


def _cost(sensors: Sequence[str], costs: Mapping[str, float | None]) -> float | None:
    found = [costs.get(sensor) for sensor in sensors]
    known = [cost for cost in found if cost is not None]
    return max(known) if len(known) == len(found) else None
