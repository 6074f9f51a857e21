"""Do what the lines of a file say, as ``client.c`` does, and write what would be published."""

import os
from binascii import hexlify, unhexlify

import discreet_client as client

import discreet_sensor

out = []
device = None
enrolment, rows, words = b"", [], [b"", 0]


def fresh(size):
    found = words[0][words[1] : words[1] + size]
    words[1] += size
    return found


class Plain(discreet_sensor.Source):
    """The bytes of the source as they are: it is a generator itself here."""

    def start(self, own):
        for _ in range(64):
            self.ask()

    def take(self, size):
        found = b""
        while len(found) < size:
            found += self.ask()
        return found[:size]


os.urandom = fresh
discreet_sensor.Source = Plain
discreet_sensor.PLATFORM = "linux"
uptime = [0]


def release(self, reading, _=None):
    return real_release(self, reading, uptime[0])


real_release = discreet_sensor.Sensor.release
discreet_sensor.Sensor.release = release


class Rows(discreet_sensor.Table):
    """Readings are rows already."""

    def row(self, reading):
        return self.rows - 1 - self.missing if reading is None else reading


discreet_sensor.Table = Rows
names, slots, stores = [], [64], (client._store, discreet_sensor._store)


def fail(path, data):
    raise OSError("the storage fails")


def read(name):
    return rows[device.names.index(name)]


def state(code):
    fields = [code, device.waiting, device.given_up, device.refused, int(device.stopped)]
    out.append("S " + " ".join([str(field) for field in fields]))


def waiting(i):
    data = client._load(device._slot(i))
    boot, seq, number = device.flights[i][1:4]
    return boot, seq, number, int.from_bytes(data[26:30], "big")


def publish(now, ticks):
    if device.up and not device.stopped:
        for slot in device.due(now, ticks):
            out.append("P " + hexlify(device.payload(slot, ticks)).decode())


def act(line):
    global device, enrolment, rows
    what, rest = line[0], line[2:]
    if what == "E":
        try:
            client.Enrolment(unhexlify(rest))
            enrolment = unhexlify(rest)
            out.append("E 0")
        except client.ClientError:
            out.append("E -6")
    elif what == "R":
        words[:] = [unhexlify(rest), 0]
    elif what == "B":
        with open("now.enrolment", "wb") as stream:
            stream.write(enrolment)
        try:
            device = client.Device(
                "now.enrolment", "/state", read, slots=slots[0], make_new=True, now=int(rest)
            )
            state(0)
        except (discreet_sensor.SensorError, OSError):
            state(-5)
    elif what == "L":
        slots[0] = int(rest)
        for name in os.listdir("/state") if "state" in os.listdir("/") else ():
            os.remove("/state/" + name)
    elif what == "F":
        client._store, discreet_sensor._store = stores if rest == "0" else (fail, fail)
    elif what == "W":
        found = [waiting(i) for i, each in enumerate(device.flights) if each[0] == 1]
        out.append("W" + "".join([" " + str(number) for each in sorted(found) for number in each]))
        state(0)
    elif what == "V":
        rows = [int(each) for each in rest.split()]
    elif what == "T":
        now, ticks, uptime[0] = [int(each) for each in rest.split()]
        try:
            if not device.stopped:
                device.rounds(now, ticks)
        except (discreet_sensor.SensorError, OSError):
            pass
        publish(now, ticks)
    elif what == "C":
        device.connected()
    elif what == "D":
        device.disconnected()
    elif what == "A":
        try:
            state(0 if device.heard(unhexlify(rest)) else -9)
        except OSError:
            state(-5)
    elif what == "M":
        boot, seq, number, spent, symbols = rest.split()
        e = client.Enrolment(enrolment)
        topic = ("discreet/v1/" + e.site + "/" + e.client + "/z").encode()
        numbers = (int(boot), int(seq), int(number), int(spent))
        body = client.seal(numbers, unhexlify(symbols), e.mapping)
        out.append("M " + hexlify(body + client.mac(e.key, topic, body)).decode())


with open("lines") as stream:
    for line in stream:
        act(line.rstrip("\n"))
with open("out", "w") as stream:
    stream.write("\n".join(out) + "\n")
