"""Start a device of a discreet site: name your network and put your readings here."""

import time

import network
import ntptime
from discreet_client import Device
from discreet_mqtt import Client
from umqtt.simple import MQTTClient  # mip.install("umqtt.simple")


def read(name):
    """Return the reading of a sensor at the end of a round; None if there is none."""
    return None


def connect():
    """Connect to your network. The radio must not sleep: its noise makes the random bytes."""
    wifi = network.WLAN(network.STA_IF)
    wifi.active(True)
    wifi.config(pm=0)
    wifi.connect("NETWORK", "PASSWORD")


def set_clock():
    """Wait for the time: without it nothing is drawn and nothing sent."""
    while True:
        try:
            ntptime.settime()
            return
        except OSError:
            time.sleep(5)


connect()
set_clock()
# make_new=True on the day the device is set up, and never after.
Client(Device("/lib/NAME.enrolment", "/discreet", read, make_new=False), MQTTClient).run()
