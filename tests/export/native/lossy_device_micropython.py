"""A device under MicroPython that notes what it writes and loses a tenth of the answers.

The file CLOCK, if it is there, holds the seconds by which its clock is ahead.
"""

import os
import sys

import discreet_client
import discreet_mqtt
from discreet_client import Device
from discreet_mqtt import Client
from umqtt_like import MQTTClient

enrolment, state = sys.argv[1:3]
store = discreet_client._store
discreet_client._make(state)
true_utc, clock = discreet_client.utc, os.getenv("CLOCK")


def wrong_utc():
    try:
        with open(clock) as stream:
            return true_utc() + 1000 * int(stream.read())
    except OSError:
        return true_utc()


discreet_client.utc = discreet_mqtt.utc = wrong_utc


def note(mark, message):
    with open(state + "/journal", "ab") as journal:
        journal.write(mark + message.hex().encode() + b"\n")


def noted(path, data):
    if data[:4] == b"DSOd":  # what is forgotten is noted before, what is new after it is stored
        note(b"d ", data[4:-4])
    store(path, data)
    if data[:4] == b"DSOw":
        note(b"w ", data[4:-4])


discreet_client._store = noted


def read(name):
    with open("../micropython.readings") as stream:
        return int(stream.read())


device = Device(enrolment, state, read, slots=128, make_new=True)
heard = device.heard
device.heard = lambda data: None if os.urandom(1)[0] < 26 else heard(data)
Client(device, MQTTClient).run()
