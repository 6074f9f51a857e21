"""The clients in C and MicroPython: the vectors of the protocol, and sessions that are alike."""

import random

import numpy as np
import pytest
from support.client_figures import alike, fuzz, sizes
from support.client_jobs import VECTORS, build_client, run_c, run_mpy, vector_lines
from support.lives import live
from support.matrices import sparing

from discreet_sensor import wire

pytestmark = pytest.mark.slow

KEY, ACK = bytes.fromhex(VECTORS["key"]), VECTORS["ack_topic"]
EPOCH, INTERVAL, BATCH, SENSORS = 1_700_000_000_000, 2500, 2, 3


@pytest.fixture(scope="module")
def client(folder):
    return build_client(folder, "client.c", "-DDISCREET_SOURCE_IS_DRBG")


def test_c_knows_the_vectors(client):
    lines, answers = vector_lines()
    assert run_c(client, lines) == answers


def test_micropython_knows_the_vectors(folder):
    lines, answers = vector_lines()
    assert run_mpy(folder, lines) == answers


def answers(client_of):
    """What a client that has just started says to the answers of the vectors."""
    lines = [f"E {VECTORS['enrolment']['binary']}", f"R {entropy(0).hex()}", "B 1800000000000"]
    good = [case["bytes"] for case in VECTORS["acknowledgements"]]
    bad = [case["bytes"] for case in VECTORS["bad_acknowledgements"]]
    found = client_of([*lines, *(f"A {each}" for each in (*good, *bad))])
    codes = [int(line.split()[1]) for line in found if line[0] == "S"]
    assert codes == [0] * (1 + len(good)) + [-9] * len(bad)
    return found


def test_c_lives_as_the_vectors_have_it(client):
    live(lambda lines: run_c(client, lines))


def test_micropython_lives_as_the_vectors_have_it(folder):
    live(lambda lines: run_mpy(folder, lines))


def entropy(seed, size=2**18):
    return np.random.default_rng(seed).bytes(size)


def test_both_take_good_answers_and_no_others(client, folder):
    assert answers(lambda lines: run_c(client, lines)) == answers(
        lambda lines: run_mpy(folder, lines)
    )


def session(seed):
    """A life with rounds, lost answers, clocks that jump, broken connections and reboots."""
    chance = random.Random(seed)
    now, ticks, known = EPOCH + 1000 * INTERVAL, 0, []
    lines = [f"E {VECTORS['enrolment']['binary']}", f"R {entropy(seed).hex()}", f"B {now}", "C"]
    boot = 1_700_002_500
    for _ in range(400):
        step = chance.choice((100, 700, 2500, 2500, 2500, 6000))
        now, ticks = now + step, ticks + step
        if chance.random() < 0.01:
            now += chance.choice((-20_000, -100_000, 60_000))
        rows = " ".join(str(chance.randrange(4)) for _ in range(SENSORS))
        lines += [f"V {rows}", f"T {now} {ticks} {ticks // 1000}"]
        if chance.random() < 0.3:
            first, length = chance.randrange(200), chance.randrange(1, 60)
            status = 0 if chance.random() < 0.9 else 1
            entry = wire.Entry(boot + chance.randrange(3), first, length, status)
            (ack,) = wire.encode_acknowledgements([entry], KEY, ACK)
            lines.append(f"A {ack.hex()}")
        if chance.random() < 0.05:
            lines += ["D", "C"]
        if chance.random() < 0.01:
            known.append(now)
            lines += [f"R {entropy(seed + len(known)).hex()}", f"B {now}", "C"]
    return lines


@pytest.mark.parametrize("seed", sparing(range(3), 0))
def test_sessions_are_the_same_in_both_languages(client, folder, seed):
    lines = session(seed)
    found = run_c(client, lines)
    assert found == run_mpy(folder, lines)
    sent = [line[2:] for line in found if line[0] == "P"]
    assert len(sent) > len(set(sent)) > 50  # with retries, of the same bytes
    numbers = [line[6:32] for line in set(sent)]
    assert len(set(numbers)) == len(numbers)  # no boot and seq for two messages


def test_hostile_enrolments_and_answers_do_no_harm(folder):
    counts, fault = fuzz(folder, 20_000, seed=1)
    assert not fault
    assert min(map(int, counts)) > 1000  # not all is refused at the first check


def test_the_client_fits_a_small_microcontroller(folder):
    code, memory = sizes(folder, "cortex-m0")
    assert code < 10_000 and memory < 500


def test_all_clients_make_the_same_messages(folder):
    compared, differing = alike(folder, mappings=6, rounds=40)
    assert compared > 150 and not any(differing.values())
