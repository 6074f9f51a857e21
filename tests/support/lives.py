"""The lives of the protocol's test vectors, lived by every client and compared step by step."""

import json
import struct

import numpy as np

from discreet_sensor import wire
from research import protocol_vectors

VECTORS = json.loads(protocol_vectors.FILE.read_text(encoding="utf-8"))
LIVES = [*VECTORS["outbox"], *VECTORS["clocks"]]
ACK = VECTORS["ack_topic"]


def step_of(milliseconds):
    """How often a client looks at its clock in a wait: less often in a long one."""
    return 500 if milliseconds > 60_000 else 100


def answer_of(step, enrolment):
    """The bytes of an answer to a device with an enrolment."""
    key = bytes.fromhex(VECTORS["life_enrolments"][enrolment]["json"]["mac_key"])
    entries = [wire.Entry(*each) for each in step["entries"]]
    (data,) = wire.encode_acknowledgements(entries, key, ACK)
    return data


def with_answers(life):
    """The steps of a life, with the bytes of its answers."""
    enrolment = ""
    for step in life["steps"]:
        enrolment = step.get("enrolment", enrolment)
        told = {"bytes": answer_of(step, enrolment).hex()} if step["do"] == "answer" else {}
        yield {**step, **told}


def compare(life, seen):
    """Hold what a client did in a life against the vectors.

    ``seen``: for each step the messages that wait (boot, seq, round, spent), those published, and
    how many were given up and refused, and whether the device has stopped; None if none runs.
    """
    sealed, sent = {}, set()
    assert len(seen) == len(life["steps"])
    for i, (step, found) in enumerate(zip(life["steps"], seen, strict=True)):
        where, wanted = (life["life"], i, step), step["then"]
        assert (found is None) == (wanted is None), where
        if found is None:
            continue
        waiting, published, *counts = found
        assert [list(each[:3]) for each in waiting] == [each[:3] for each in wanted["waiting"]], (
            where
        )
        for message, least in zip(waiting, wanted["waiting"], strict=True):
            assert message[3] >= least[3], where
        assert counts == [wanted["given_up"], wanted["refused"], wanted["stopped"]], where
        numbers = [list(numbers_of(payload)[:2]) for payload in published]
        assert wanted["published"] in (None, sorted(numbers)), (where, numbers)
        sent = set() if step["do"] in ("start", "connect") else sent
        new = [each for each in map(tuple, numbers) if each not in sent]
        assert new[: len(set(new))] == sorted(set(new)), where  # oldest first
        sent |= set(new)
        for key, payload in zip(map(tuple, numbers), published, strict=True):
            assert sealed.setdefault(key, payload) == payload, where  # the same bytes


def numbers_of(payload):
    """Boot, seq, round and spent of a message."""
    boot, _, seq, _, number, _, spent = struct.unpack_from(">QBIBIBI", payload, 3)
    return boot, seq, number, spent


# --- The clients in C and MicroPython ------------------------------------------------------


def lines_of(life):
    """A life as acts of ``client.c``; after each step, what waits is asked for."""
    clock = steady = 0
    yield from (f"L {life['slots']}", "V 0")
    for number, step in enumerate(with_answers(life)):
        act = step["do"]
        if act == "start":
            clock = step["clock"]
            yield f"E {VECTORS['life_enrolments'][step['enrolment']]['binary']}"
            yield f"R {np.random.default_rng(number).bytes(2**14).hex()}"
            yield f"B {clock}"
        elif act == "wait":
            pause = step_of(step["ms"])
            for _ in range(step["ms"] // pause):
                clock, steady = clock + pause, steady + pause
                yield f"T {clock} {steady} {steady // 1000}"
        elif act == "set_clock":
            clock = step["clock"]
        elif act == "storage":
            yield f"F {int(not step['works'])}"
        else:
            yield {"connect": "C", "disconnect": "D"}.get(act) or f"A {step['bytes']}"
        yield "W"


def seen_in(life, lines):
    """What ``lines_of`` has a client print, by step; ``lines`` is an iterator."""
    seen, before, runs = [], (0, 0), False
    for step in life["steps"]:
        published = []
        before = (0, 0) if step["do"] == "start" else before
        for line in lines:
            if line[0] == "S" and step["do"] == "start":
                runs = line.split()[1] == "0"
            if line[0] == "P":
                published.append(bytes.fromhex(line[2:]))
            if line[0] == "W":
                break
        waiting = [int(each) for each in line.split()[1:]]
        given_up, refused, stopped = map(int, next(lines).split()[3:])
        counts = given_up - before[0], refused - before[1], bool(stopped)
        before = given_up, refused
        rows = [tuple(waiting[i : i + 4]) for i in range(0, len(waiting), 4)]
        seen.append((rows, published, *counts) if runs else None)
    return seen


def live(run):
    """Have a client live all lives, and compare. ``run``: from lines to the lines it prints."""
    lines = iter(run([line for life in LIVES for line in lines_of(life)]))
    for life in LIVES:
        compare(life, seen_in(life, lines))
