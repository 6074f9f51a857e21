"""A device under MicroPython that notes what it writes and loses a tenth of the answers."""

import os
import sys

import discreet_client
from discreet_client import Device
from discreet_mqtt import Client
from umqtt_like import MQTTClient

enrolment, state = sys.argv[1:3]
store = discreet_client._store
discreet_client._make(state)


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
