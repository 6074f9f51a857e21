"""Clients of a site in C and MicroPython beside Python: the same messages, no harm, no hints.

    python -m research.benchmarks.clients [--only alike,fuzz,size,eavesdropper-c] [--scale 0.1]

``alike``: the same random words and readings give the same messages in all three. ``fuzz``: hostile
enrolments and answers for the client in C, under AddressSanitizer and UBSan. ``eavesdropper``: what
size and time of messages tell a trained classifier; MicroPython needs the Unix port for that, on
the PATH or named by DISCREET_MICROPYTHON.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support import client_figures
from support.network_figures import eavesdropping
from support.network_figures.clients import why_not

INTERVAL = 0.25


def alike(folder, scale):
    rounds = max(30, int(2000 * scale))
    compared, differing = client_figures.alike(folder, 50, rounds, say=_say)
    print(f"alike: {50 * rounds} rounds, 50 mappings, {compared} messages; differing from Python:")
    print("  " + ", ".join(f"{name} {count}" for name, count in differing.items()) + " (asked: 0)")
    return not any(differing.values())


def fuzz(folder, scale):
    count = int(1_000_000 * scale)
    (opened, answered, published), fault = client_figures.fuzz(folder, count, 1)
    print(f"fuzz: {count} enrolments, {opened} of them taken; {count} answers and more")
    print(
        f"  {answered} of them taken; {published} messages; faults: {int(bool(fault))} (asked: 0)"
    )
    if fault:
        print(fault[-3000:])
    return not fault


def size(folder, scale):
    for cpu in ("cortex-m0", "cortex-m3", "cortex-m33"):
        code, memory = client_figures.sizes(folder, cpu)
        print(
            f"size, {cpu}: client with ledger, tables' code, DRBG and HMAC: {code} bytes of code,"
        )
        print(f"  {memory} of memory; without the enrolment, TLS, MQTT and the compiler's library")
    return True


def eavesdropper(kind, folder, scale):
    if why_not(kind):
        print(f"eavesdropper, {kind}: not run: {why_not(kind)}")
        return True
    seconds = max(40, 400 * scale)
    heard = eavesdropping.eavesdrop(folder, seconds, interval=INTERVAL, say=_say, kind=kind)
    met = True
    for question, (auc, low, high, count) in eavesdropping.attack(heard, INTERVAL).items():
        words = f"AUC {auc:.3f} ({low:.3f} to {high:.3f}), {count} judged (asked: below 0.55)"
        print(f"eavesdropper, {kind}: {question}: {words}")
        met &= high < 0.55
    return met


PARTS = {
    "alike": alike,
    "fuzz": fuzz,
    "size": size,
    "eavesdropper-c": partial(eavesdropper, "c"),
    "eavesdropper-micropython": partial(eavesdropper, "micropython"),
}


def _say(line):
    print(f"  {line}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    met = True
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            met &= PARTS[name](Path(folder), given.scale)
    print("met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
