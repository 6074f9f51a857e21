"""Encode, or draw for, one of some readings again and again, for a count of instructions."""

import gc
import struct
import sys

from discreet_sensor import Table

NAN, INFINITE = float("nan"), float("inf")
READINGS = {
    "BINS": (-3.5, -2.0, -0.1, 0.0, 0.7, 1.99, 2.0, 1e300, -1e-300, INFINITE, -INFINITE, NAN),
    "WHOLE": (-3, -2, 0, 1, 2, 1000000),
    "NUMBERS": (0.0, 1.0, 3.0, 7.0, 2.0, 0.5, -1.0, 1e16, INFINITE, NAN),
    "TEXTS": (b"shut", b"ajar", b"none", b"shux", b"xhut", b"\xc3\xa4\xc3\xb6"),
    "WORDS": (b"open", b"shut"),  # the first is a word of MicroPython itself
    "CODES": (0, 1, 2, 3, 4, 5, 6, 7, 8, -1, 100000),
    "FRACTIONS": (0.0, 1.0, 7.0, 8.0, -1.0, 0.5, 1e300, INFINITE, NAN),
    "DRAW": (0, 1, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF),
}
kind, index, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(kind + ".table", "rb") as stream:
    table = Table(stream.read())
reading = READINGS[kind][index]
if isinstance(reading, bytes):  # a text as it comes from outside
    reading = (b"  " + reading).decode()[2:]
low, high = struct.unpack("<HH", struct.pack("<I", reading)) if kind == "DRAW" else (0, 0)
gc.collect()
gc.disable()
if kind == "DRAW":
    row = index % table.rows
    for _ in range(times):
        table.pick_halves(row, low, high)
else:
    for _ in range(times):
        table.row(reading)
