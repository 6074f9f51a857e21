"""Many sensors for a long time: memory and lag of the fusion centre."""

import time
from dataclasses import dataclass

import numpy as np

from discreet.network.broker import Broker
from discreet_sensor.wire import STORED, Message, decode_acknowledgement, encode, mapping_tag
from support.network_figures.load import LoadSite, Serve
from support.network_figures.raw_mqtt import RawClient


@dataclass
class Soaked:
    """What happened.

    ``samples`` has a row for each round: seconds, resident bytes, and the mean time from sending
    to acknowledgement.
    """

    sent: int
    acknowledged: int
    stored: int
    decisions: int
    samples: np.ndarray

    def quarters(self, column):
        """The median of a column in each quarter, the first one being for warming up."""
        return [float(np.nanmedian(part)) for part in np.array_split(self.samples[:, column], 4)]

    def growth(self, column):
        """The last quarter against the second, as a share."""
        _, second, _, last = self.quarters(column)
        return last / second - 1


def soak(folder, seconds, sensors=200, interval=1.0, say=lambda _: None):
    """Let every sensor send once a round for some seconds."""
    with Broker.plain(folder / "broker") as broker:
        site = LoadSite(folder / "site", broker.port, clients=sensors, interval=interval)
        with Serve(site) as serve:
            sensors = _Sensors(broker.port, site)
            samples, begin = [], time.monotonic()
            while (passed := time.monotonic() - begin) < seconds:
                sensors.send_round()
                # A machine that stood still for a while does not make up for it.
                lag = sensors.listen(begin + (passed // interval + 1) * interval)
                samples.append((passed, serve.resident(), lag))
                say(
                    f"{passed:.0f} of {seconds:.0f} s, {samples[-1][1] / 2**20:.0f} MB, {lag:.3f} s"
                )
            sensors.listen(time.monotonic() + 120)
            sensors.close()
            decisions = serve.value("decisions_total")
        stored = site.count_stored()
    return Soaked(sensors.sent, sensors.acknowledged, stored, decisions, np.array(samples))


class _Sensors:
    """All sensors of a site on one connection."""

    def __init__(self, port, site):
        self._senders, self._site = site.senders(), site
        self._keys = {each.ack_topic: each for each in self._senders}
        self._client = RawClient(port, "sensors", f"discreet/v1/{site.name}/+/ack")
        self._boot, self._seq, self._tag = time.time_ns(), 0, mapping_tag(site.mapping.id)
        self._under_way, self._last = {}, -1
        self.sent = self.acknowledged = 0

    def send_round(self):
        number = self._last = max(self._last + 1, self._site.round_now())
        some = []
        for each in self._senders:
            symbols = bytes([(self._seq + len(some)) % 2])
            message = Message(self._boot, self._seq, number, 0, symbols, self._tag)
            some.append((each.topic, encode(message, each.key, each.topic)))
            self._under_way[each.ack_topic, self._seq] = time.monotonic()
        self._client.publish(some)
        self._seq, self.sent = self._seq + 1, self.sent + len(some)

    def listen(self, until):
        """Note acknowledgements until a moment; return the mean time that they took."""
        waits = []
        while (left := until - time.monotonic()) > 0:
            for topic, payload in self._client.poll(min(left, 0.05)):
                for entry in decode_acknowledgement(payload, self._keys[topic].key, topic):
                    for seq in range(entry.first, entry.first + entry.length):
                        began = self._under_way.pop((topic, seq), None)
                        if began is not None and entry.status == STORED:
                            waits.append(time.monotonic() - began)
            if not self._under_way and left > 1.5:
                break
        self.acknowledged += len(waits)
        return float(np.mean(waits)) if waits else float("nan")

    def close(self):
        self._client.close()
