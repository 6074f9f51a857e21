"""A device under MicroPython whose readings are the lines of a file, one for each round."""

import sys

from discreet_client import Device
from discreet_mqtt import Client
from umqtt_like import MQTTClient

enrolment, state, readings = sys.argv[1:4]
with open(readings) as stream:
    lines = stream.read().split("\n")
at = [0]


def read(name):
    text = lines[at[0]] if at[0] < len(lines) else ""
    at[0] += 1
    return int(text) if text in ("0", "1") else text or None


Client(Device(enrolment, state, read, make_new=True), MQTTClient).run()
