"""Clocks that jump: of the fusion centre, of one device, of all; with and without a restart."""

from dataclasses import dataclass

from support.jumping_sites import NAMES, Judges, SimulatedSite
from support.network_samples import additive_mapping

JUMPS = {"1 min": 60.0, "1 h": 3600.0, "3 days": 3 * 86_400.0}
_MOST = 40  # rounds to wait for decisions on all sensors
_HISTORY = {"messages are refused"}


@dataclass(frozen=True)
class AfterJump:
    """``rounds``: until all sensors were decided on and nobody found anything, from the right
    clock on. ``told``: how many of doctor, ``/health`` and dashboard told it while it lasted.
    """

    rounds: int
    lost: int
    told: int


def jump(folder, who, seconds, *, restart, keep):
    """Let clocks be wrong for twelve rounds, and count what that costs afterwards.

    ``keep``: days.
    """
    site = SimulatedSite(folder, additive_mapping(names=NAMES), keep=keep)
    judges = Judges(site)
    try:
        site.run(12)
        site.set_clocks(who, seconds)
        if restart:
            site.start()
        told = set()
        for _ in range(12):
            site.run(1)
            told |= {place for place, (_, found) in enumerate(judges.verdicts()) if found}
        site.set_clocks(who, 0.0)
        if restart:
            site.start()
        rounds = 0
        while rounds == 0 or not _is_well(site, judges):
            site.run(1)
            rounds += 1
            if rounds == _MOST:
                break
        site.run(5)
        return AfterJump(rounds if _is_well(site, judges) else _MOST, _lost(site), len(told))
    finally:
        judges.close()
        site.stop()


def _is_well(site, judges):
    """Whether all sensors were decided on in the last due round, all show it, and are content.

    That messages were refused stays true for a while, and is no failure.
    """
    last = site.clock.last_due(site.true)
    shown = judges.snapshot().stored.decision, site.published
    content = all(not bad and found <= _HISTORY for bad, found in judges.verdicts())
    rounds = [shown[0] and shown[0].round, shown[1] and shown[1]["round"]]
    return content and rounds == [last, last] and site.heard(1) == [len(NAMES)]


def _lost(site):
    """How many acknowledged messages of the last day are not stored."""
    stored = {each[:4] for each in site.service._store.messages(0, 2**40)}
    recent = site.clock.number(site.true) - 86_000
    return sum(
        (device.name, *key, number) not in stored
        for device in site.devices
        for key, number in device.stored.items()
        if number > recent
    )
