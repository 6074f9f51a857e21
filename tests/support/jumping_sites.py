"""A site whose clocks are set at will: fusion centre and devices, round by round, without waiting.

The time that passes is ``SimulatedSite.true``; every clock is ahead of it by some seconds.
"""

import contextlib
import io
import json
import time
from types import SimpleNamespace
from unittest.mock import patch

from discreet.cli.doctor import UNWELL, doctor
from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.fleet import Fleet
from discreet.network.fusion.timekeeping import Timekeeper
from discreet.network.health import BAD, worst
from discreet.network.site.settings import Clients, load_site, save_clients
from discreet_sensor import wire
from support.network_sites import PlainSite
from support.sites import make_site

NAMES = ["hall", "door", "bed"]


class SimulatedDevice:
    """Sends once a round by its own clock, and keeps what is not acknowledged."""

    def __init__(self, site, name):
        self.site, self.name, self.ahead = site, name, 0.0
        self.key = bytes.fromhex(site.plain.clients[name].key)
        self.topic = wire.message_topic("home", name)
        self.boot, self.seq, self.next = 1, 0, 0
        self.waiting, self.stored, self.spent = {}, {}, 0

    def act(self):
        number = self.site.clock.number(self.site.true + self.ahead) - 1
        if self.next - number > 4:  # as the sensor does when its clock goes back
            self.boot, self.seq, self.next = self.boot + 1, 0, number
            self.waiting = {key: each for key, each in self.waiting.items() if each[0] < number}
        if number >= self.next:
            tag = wire.mapping_tag(self.site.plain.mapping.id)
            message = wire.Message(self.boot, self.seq, number, self.spent, b"\1", tag)
            sealed = wire.encode(message, self.key, self.topic)
            self.waiting[self.boot, self.seq] = number, sealed
            self.seq, self.next = self.seq + 1, number + 1
        for _, sealed in list(self.waiting.values()):
            self.site.service._arrived(self.topic, sealed, (1, 1))

    def acknowledged(self, payload):
        for entry in wire.decode_acknowledgement(
            payload, self.key, wire.ack_topic("home", self.name)
        ):
            for seq in range(entry.first, entry.first + entry.length):
                found = self.waiting.pop((entry.boot, seq), None)
                if found is not None and entry.status == wire.STORED:
                    self.stored[entry.boot, seq] = found[0]


class SimulatedSite:
    """``keep``: days, as for ``serve``; ``ahead``: how far the fusion centre's clock is.

    ``published``: the last decision that was.
    """

    def __init__(self, folder, mapping, *, keep=None, interval=1.0):
        self.plain = PlainSite(folder, mapping, 1, interval=interval, deadline=interval / 2)
        self.clock, self.keep = self.plain.clock, keep
        self.true, self.ahead = self.clock.epoch + 20 * 86_400.0, 0.0
        for name in NAMES:
            self.plain.enrol(name, [name])
        self.devices = [SimulatedDevice(self, name) for name in NAMES]
        self.service, self.told, self.booted = None, set(), self.true
        self.published = None
        self.start()

    def start(self, *, reboot=False, **options):
        """Start the fusion centre, or start it again; ``reboot``: its machine as well."""
        self.stop()
        self.booted = booted = self.true if reboot else self.booted
        keeper = Timekeeper(
            self.clock,
            lambda: self.true + self.ahead,
            lambda: self.true - booted,
            str(booted),
            lambda: self.true - booted,
        )
        keep = None if self.keep is None else self.keep * 86_400.0
        self.service = self.plain.service(keep=keep, timekeeper=keeper, **options)
        self.service._link.send = self._answer
        self.service.state.turn("broker", "here")
        self.service._begin()

    def stop(self):
        if self.service is not None:
            self.service._store.close()
            self.service._link.close()

    def _answer(self, _tickets, messages):
        for topic, payload, _ in messages:
            if topic == wire.decision_topic("home"):
                self.published = json.loads(payload)
            for device in self.devices:
                if topic == wire.ack_topic("home", device.name):
                    device.acknowledged(payload)

    def run(self, rounds):
        """Let time pass, in four steps a round."""
        for step in range(4 * rounds):
            self.true += self.clock.interval / 4
            if step % 4 == 0:
                for device in self.devices:
                    device.act()
            self.service._commit_all()
            closed = None
            while closed != self.service._closer.closed:  # it may have much to catch up with
                closed = self.service._closer.closed
                self.service._look_after()
            self.told.add(self.service.state.summary()["parts"]["clock"]["state"])

    def set_clocks(self, who, ahead):
        """Set the clock of the fusion centre ("fusion"), of one device ("one"), or of all."""
        if who in ("fusion", "all"):
            self.ahead = ahead
        for device in self.devices if who == "all" else self.devices[:1] if who == "one" else ():
            device.ahead = ahead

    def heard(self, rounds):
        """How many sensors were heard in each of the last rounds, by the decisions."""
        last = self.clock.last_due(self.true)
        found = {each.round: each.reported for each in self.service._store.decisions(limit=9000)}
        return [found.get(number, 0) for number in range(last - rounds + 1, last + 1)]


class Judges:
    """Who says how the site is, by the clock of the fusion centre's machine.

    No broker runs, so that doctor does not look for one, and there is no certificate of privacy.
    """

    def __init__(self, site):
        self._site, plain = site, site.plain
        clock = plain.clock
        self._folder = make_site(
            plain.folder, plain.mapping, interval=clock.interval, deadline=clock.deadline
        )
        database = f"sqlite:{plain.folder / 'fusion.db'}"
        changes = {"id": None, "epoch": plain.epoch, "database": database, "keep": 90}
        settings = load_site(self._folder).model_copy(update=changes)
        (self._folder / "site.json").write_text(settings.model_dump_json())
        save_clients(self._folder, Clients(clients=plain.clients))
        self._reader = plain.reader()
        self._snapshots = Snapshots(SiteView(self._folder), self._reader, self._wall)

    def _wall(self):
        return self._site.true + self._site.ahead

    def close(self):
        self._reader.close()

    def doctor(self):
        """Whether the exit code of ``discreet doctor`` is 3, and what it finds."""
        with (
            patch("discreet.network.doctor.broker", lambda *_: ()),
            patch("discreet.network.doctor.time", SimpleNamespace(time=self._wall)),
            contextlib.redirect_stdout(io.StringIO()) as printed,
        ):
            code = doctor(site=self._folder, as_json=True)
        found = [each for each in json.loads(printed.getvalue()) if each["level"] != "ok"]
        found = [each for each in found if each["subject"] not in ("guarantee", "re-check")]
        return code == UNWELL, {each["words"].partition(". ")[0].lower() for each in found}

    def health(self):
        """Whether ``/health`` is bad, and what it finds."""
        level, about = self._site.service.state.health()
        found = json.loads(about)["findings"]
        return level == BAD, {each["short"].lower() for each in found}

    def snapshot(self):
        return self._snapshots.now()

    def dashboard(self):
        """Whether the dashboard is bad, and what it shows, the guarantee left out."""
        found = [each for each in self.snapshot().findings if each.view != "guarantee"]
        bad = worst(each.level for each in found) == BAD
        return bad, {each.short.lower() for each in found}

    def fleet(self):
        """How the site is in ``discreet fleet``."""
        clock = SimpleNamespace(time=self._wall, monotonic=time.monotonic)
        fleet = Fleet([str(self._folder)])
        with patch("discreet.network.fleet.time", clock):
            (found,) = fleet.look()
        fleet.close()
        return found

    def verdicts(self):
        """What doctor, ``/health`` and dashboard say."""
        return [self.doctor(), self.health(), self.dashboard()]
