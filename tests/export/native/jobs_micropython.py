# Runs the jobs in the files `picks`, `releases` and `rows` under MicroPython; see devices.py.
import os
import struct

import discreet_sensor as device


class Reader:
    def __init__(self, name):
        self.stream = open(name, "rb")  # noqa: SIM115

    def take(self, size):
        return self.stream.read(size)

    def head(self, count):
        data = self.stream.read(4 * count)
        return struct.unpack(f"<{count}I", data) if data else None


def picks():
    jobs, out = Reader("picks"), open("picks.out", "wb")  # noqa: SIM115
    while True:
        head = jobs.head(2)
        if head is None:
            break
        table = device.Table(jobs.take(head[0]))
        rows, words = jobs.head(head[1]), jobs.head(head[1])
        out.write(bytes([table.pick(rows[i], words[i]) for i in range(head[1])]))
    out.close()


def plain(source, size):
    """The words of the source as they are, as in C where it is a generator itself."""
    return source.ask()[:size]


class Words:
    def __init__(self, data):
        self.data, self.at = data, 0

    def __call__(self, size):
        self.at += size
        return self.data[self.at - size : self.at]


def releases():
    device.Source.take, device.Source._seed = plain, lambda source, entropy, own: None
    jobs, out = Reader("releases"), open("releases.out", "wb")  # noqa: SIM115
    while True:
        head = jobs.head(4)
        if head is None:
            break
        for name, size in (("job.table", head[0]), ("job.ledger", head[1])):
            with open(name, "wb") as stream:
                stream.write(jobs.take(size))
        if not head[1]:
            os.remove("job.ledger")
        os.urandom = Words(jobs.take(head[2]))
        rows, uptimes = jobs.head(head[3]), jobs.head(head[3])
        sensor = device.Sensor("job.table", ledger="job.ledger", make_new=True)
        for i in range(head[3]):
            if sensor.pending < 0:
                sensor.pending = sensor._release(rows[i] & 0x7FFFFFFF, uptimes[i])
            out.write(bytes([sensor.pending]))
            if rows[i] >> 31:  # not delivered, and the device restarts
                sensor = device.Sensor("job.table", ledger="job.ledger", make_new=True)
            else:
                sensor.delivered()
        if "job.ledger" in os.listdir():
            with open("job.ledger", "rb") as stream:
                out.write(stream.read())
            os.remove("job.ledger")
    out.close()


def rows():
    jobs, out = Reader("rows"), open("rows.out", "wb")  # noqa: SIM115
    while True:
        head = jobs.head(3)
        if head is None:
            break
        table = device.Table(jobs.take(head[0]))
        for number in struct.unpack(f"<{head[1]}d", jobs.take(8 * head[1])):
            out.write(struct.pack("<I", table.row(number)))
        texts = jobs.take(head[2]).split(b"\0")[:-1]
        for text in texts:
            out.write(struct.pack("<I", table.row(text.decode())))
    out.close()


def refusals():
    out = []
    for name in ("absent", "short", "constant"):
        if name == "short":
            os.urandom = lambda size: bytes(size - 1)
        if name == "constant":
            os.urandom = lambda size: bytes([85] * size)
        try:
            device.Sensor("probe.table", ledger="probe.ledger", make_new=True)
            out.append("accepted")
        except device.RandomnessError:
            out.append("refused")
    with open("refusals.out", "w") as stream:
        stream.write(",".join(out))


device.PLATFORM = "linux"  # its source is replaced, or absent
present = os.listdir()
if "probe.table" in present:
    refusals()
if "picks" in present:
    picks()
if "releases" in present:
    releases()
if "rows" in present:
    rows()
