"""A site whose clocks are set at will: fusion centre and devices, round by round, without waiting.

The time that passes is ``SimulatedSite.true``; every clock is ahead of it by some seconds.
"""

from discreet.network.fusion.timekeeping import Timekeeper
from discreet_sensor import wire
from support.network_sites import PlainSite

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
    """``keep``: days, as for ``serve``; ``ahead``: how far the fusion centre's clock is."""

    def __init__(self, folder, mapping, *, keep=None, interval=1.0):
        self.plain = PlainSite(folder, mapping, 1, interval=interval, deadline=interval / 2)
        self.clock, self.keep = self.plain.clock, keep
        self.true, self.ahead = self.clock.epoch + 20 * 86_400.0, 0.0
        for name in NAMES:
            self.plain.enrol(name, [name])
        self.devices = [SimulatedDevice(self, name) for name in NAMES]
        self.service, self.told, self.booted = None, set(), self.true
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
        )
        keep = None if self.keep is None else self.keep * 86_400.0
        self.service = self.plain.service(keep=keep, timekeeper=keeper, **options)
        self.service._link.send = self._answer
        self.service._begin()

    def stop(self):
        if self.service is not None:
            self.service._store.close()
            self.service._link.close()

    def _answer(self, _tickets, messages):
        for topic, payload, _ in messages:
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
            self.service._look_after()
            while self.service._closer.due(
                self.service._time.now()
            ):  # it has much to catch up with
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
