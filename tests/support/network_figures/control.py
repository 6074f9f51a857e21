"""The control: what the broker's acknowledgements alone are worth when parts are killed.

A publisher takes a message for delivered when the broker has acknowledged it, and a subscriber
acknowledges before it stores. Both is what a plain MQTT client does.
"""

import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import paho.mqtt.client as mqtt

from discreet.network.broker import Broker

_SUBSCRIBER = """
import sqlite3, sys, threading, time
import paho.mqtt.client as mqtt
port, path = int(sys.argv[1]), sys.argv[2]
arrived, alone = [], threading.Lock()
def heard(client, data, message):
    with alone:
        arrived.append((int(message.payload),))
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "fusion", clean_session=False)
client.on_message = heard
client.on_connect = lambda *_: client.subscribe("readings", qos=1)
client.connect_async("127.0.0.1", port)
client.loop_start()
base = sqlite3.connect(path)
base.execute("CREATE TABLE IF NOT EXISTS readings (number INTEGER)")
while True:
    time.sleep(0.05)
    with alone:
        rows, arrived[:] = list(arrived), []
    if rows:
        base.executemany("INSERT INTO readings VALUES (?)", rows)
        base.commit()
"""


def kill_with_broker_acknowledgements_only(folder, kills, seed=None):
    """Return how many messages the broker acknowledged, lost ones and those stored twice."""
    folder, chance = Path(folder), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker.plain(folder / "control")
    broker.start()
    publisher = _Publisher(broker.port)
    subscriber = _start(folder, broker.port)
    for i in range(2 * kills):
        time.sleep(chance.uniform(0.5, 1.5))
        if i % 2:
            broker.kill()
            time.sleep(chance.uniform(0, 0.3))
            broker.start()
        else:
            subscriber.kill()
            subscriber.wait()
            subscriber = _start(folder, broker.port)
    time.sleep(3)
    publisher.close()
    time.sleep(3)
    subscriber.kill()
    subscriber.wait()
    broker.stop()
    base = sqlite3.connect(folder / "control.db")
    stored = [number for (number,) in base.execute("SELECT number FROM readings")]
    base.close()
    lost = len(publisher.acknowledged - set(stored))
    return len(publisher.acknowledged), lost, len(stored) - len(set(stored))


def _start(folder, port):
    return subprocess.Popen([sys.executable, "-c", _SUBSCRIBER, str(port), folder / "control.db"])


class _Publisher:
    """30 messages a second, each forgotten when the broker has acknowledged it."""

    def __init__(self, port):
        self.acknowledged, self._numbers = set(), {}
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "sensor")
        self._client.on_publish = self._published
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self):
        number = 0
        while not self._stop.wait(1 / 30):
            info = self._client.publish("readings", str(number), qos=1)
            self._numbers[info.mid] = number
            number += 1

    def _published(self, _client, _data, mid, *_):
        number = self._numbers.pop(mid, None)
        if number is not None:
            self.acknowledged.add(number)

    def close(self):
        self._stop.set()
        self._thread.join()
        time.sleep(0.5)
        self._client.disconnect()
        self._client.loop_stop()
