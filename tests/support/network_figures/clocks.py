"""Clocks that jump: of the fusion centre, of one device, of all; with and without a restart."""

from dataclasses import dataclass

from discreet.network.fusion.timekeeping import RIGHT
from support.jumping_sites import NAMES, SimulatedSite
from support.network_samples import additive_mapping

JUMPS = {"1 min": 60.0, "1 h": 3600.0, "3 days": 3 * 86_400.0}
_MOST = 40  # rounds to wait for decisions on all sensors


@dataclass(frozen=True)
class AfterJump:
    """``rounds``: until all sensors were decided on, from the right clock on. ``told``: of it."""

    rounds: int
    lost: int
    told: bool


def jump(folder, who, seconds, *, restart, keep):
    """Let clocks be wrong for twelve rounds, and count what that costs afterwards.

    ``keep``: days.
    """
    site = SimulatedSite(folder, additive_mapping(names=NAMES), keep=keep)
    try:
        site.run(12)
        site.set_clocks(who, seconds)
        if restart:
            site.start()
        site.run(12)
        site.set_clocks(who, 0.0)
        if restart:
            site.start()
        rounds = 0
        while site.heard(1) != [len(NAMES)] or rounds == 0:
            site.run(1)
            rounds += 1
            if rounds == _MOST:
                break
        site.run(5)
        return AfterJump(rounds, _lost(site), site.told != {RIGHT})
    finally:
        site.stop()


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
