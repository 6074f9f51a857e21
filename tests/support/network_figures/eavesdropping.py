"""What size and time of messages tell somebody who sees all traffic of the broker.

Sensors run as the real command while their readings come and go; a listener with no key writes
down when each message arrives and how long it is. Then a classifier is trained on the first part
of what was heard and tried on the rest.
"""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from discreet.export.neutral import Policy
from discreet.files import PRIVATE, write_whole
from discreet.network.broker import Broker
from discreet.network.site.device_files import packed
from discreet_sensor.wire import decode
from support.network_figures.clients import build_device, micropython, put_micropython
from support.network_figures.raw_mqtt import RawClient
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, Running

CELLS = np.array(["0", "1", "", "not a number"])
"""What is read: either code, nothing, or something that cannot be."""
_BEFORE = 3  # messages of the same sensor before and after that a feature vector reaches


@dataclass
class Heard:
    """Messages in the order of their rounds, of one sensor."""

    rounds: np.ndarray
    at: np.ndarray
    sizes: np.ndarray
    symbols: np.ndarray
    cells: np.ndarray


def eavesdrop(
    folder, seconds, *, sensors=4, interval=0.25, seed=0, say=lambda _: None, kind="python"
):
    """Run sensors for some seconds; return what was heard of each, with what was really read.

    ``kind``: what the devices run, see ``clients``.
    """
    names = [f"s{i}" for i in range(sensors)]
    count = int(seconds / interval)
    rng = np.random.default_rng(seed)
    cells = rng.choice(4, size=(count, sensors), p=[0.4, 0.4, 0.1, 0.1])
    with Broker.plain(folder / "broker") as broker:
        site = PlainSite(folder, additive_mapping(names=names), broker.port, interval=interval)
        policies = [Policy(repeat=("never", "code")[t % 2]) for t in range(sensors)]
        enrolments = {
            name: site.enrol(name, [name], policy=policy)
            for name, policy in zip(names, policies, strict=True)
        }
        _write(folder, names, cells, enrolments)
        start = starter(kind, folder)
        ear = RawClient(broker.port, "ear", "discreet/v1/home/+/z")
        with Running(site.service()):
            processes = [start(folder, name) for name in names]
            try:
                heard = _listen(ear, processes, seconds + 60 * (kind == "python"), say)
            finally:
                for process in processes:
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)
        ear.close()
    found = [_of_one(heard, name, enrolments[name], cells[:, t]) for t, name in enumerate(names)]
    for each, table, policy in zip(found, site.mapping.tables, policies, strict=True):
        _check_in_step(each, table, policy)
    return found


def _check_in_step(heard, table, policy):
    """Raise if readings and messages do not belong together: then nothing could be found."""
    ones = [heard.symbols[heard.cells == code] for code in (0, 1)]
    if policy.repeat == "code":
        good = all(len(set(each)) == 1 for each in ones)
    else:
        told = ones[1].mean() - ones[0].mean()
        spread = 0.5 * np.sqrt(sum(1 / len(each) for each in ones))
        good = abs(told - (table[1][1] - table[0][1])) < 5 * spread
    if not good:
        raise RuntimeError("the symbols heard are not those of the readings")


def _write(folder, names, cells, enrolments):
    for t, name in enumerate(names):
        lines = [name, *(f'"{CELLS[cell]}"' for cell in cells[:, t])]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        write_whole(folder / f"{name}.enrol", enrolments[name].as_json(), PRIVATE)
        write_whole(folder / f"{name}.enrolment", packed(enrolments[name]), PRIVATE)
        (folder / f"{name}.lines").write_text("\n".join(CELLS[cells[:, t]]) + "\n")


def _start_python(folder, name):
    arguments = ("sensor", f"{name}.enrol", "--state", name, "--read", f"csv:{name}.csv")
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "discreet", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def starter(kind, folder):
    """Return what starts a device of a kind, whose readings are the lines of a file."""
    if kind == "python":
        return _start_python
    if kind == "c":
        program = [build_device(folder, "playback_device.c")]
    else:
        put_micropython(folder, "playback_device_micropython.py")
        program = [micropython(), "playback_device_micropython.py"]

    def start(folder, name):
        with (folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*map(str, program), f"{name}.enrolment", f"{name}.state", f"{name}.lines"],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    return start


def _listen(ear, processes, seconds, say):
    heard, said = [], 0.0
    end = time.time() + seconds
    while time.time() < end and any(process.poll() is None for process in processes):
        for topic, payload in ear.poll(0.5):
            heard.append((topic, payload, time.time()))
        if time.time() > said:
            said = time.time() + 2
            say(f"{len(heard)} messages heard")
    return heard


def _of_one(heard, name, enrolment, cells):
    topic, key = f"discreet/v1/home/{name}/z", bytes.fromhex(enrolment.mac_key)
    first = {}
    for where, payload, at in heard:
        if where == topic:
            message = decode(payload, 1, key, topic.encode())
            first.setdefault(message.seq, (message, at, len(payload)))  # retries come later
    # A row of the table was read for every message, the first row for the first message.
    some = [(seq, *first[seq]) for seq in sorted(first) if seq < len(cells)]
    return Heard(
        np.array([message.round for _, message, _, _ in some]),
        np.array([at for _, _, at, _ in some]),
        np.array([size for *_, size in some]),
        np.array([message.symbols[0] for _, message, _, _ in some]),
        cells[[seq for seq, *_ in some]],
    )


def features(heard, interval):
    """What the listener knows of each message: its length, and when it and its neighbours came."""
    # Seconds after the tick of its round; the origin does not matter.
    offset = heard.at - heard.rounds * interval
    offset = offset - np.median(offset)
    columns = [heard.sizes, offset]
    for apart in range(1, _BEFORE + 1):
        columns += [_shifted(np.diff(heard.at, prepend=np.nan), s) for s in (apart - 1, -apart)]
        columns += [_shifted(offset, apart), _shifted(offset, -apart)]
    return np.column_stack(columns).astype(float)


def _shifted(values, by):
    found = np.full(len(values), np.nan)
    if by > 0:
        found[by:] = values[:-by]
    elif by < 0:
        found[:by] = values[-by:]
    else:
        found[:] = values
    return found


def questions(heard):
    """What the listener would like to know: a name, which messages count, and the truth."""
    known = heard.cells < 2
    return {
        "the reading, 0 or 1": (known, heard.cells == 1),
        "whether there was a reading": (np.ones(len(known), bool), known),
        "the symbol": (np.ones(len(known), bool), heard.symbols == 1),
    }


def attack(all_heard, interval, seed=0):
    """AUC of the classifier for each question with its 95 % interval, and how many were judged."""
    found = {}
    for question in questions(all_heard[0]):
        parts = []
        for heard in all_heard:
            counts, truth = questions(heard)[question]
            half = len(truth) // 2
            early = np.arange(len(truth)) < half
            parts.append((features(heard, interval), truth, counts & early, counts & ~early))
        X = np.vstack([each[0] for each in parts])
        y, learn, judge = (np.concatenate([each[i] for each in parts]) for i in (1, 2, 3))
        sensors = np.repeat(np.arange(len(parts)), [len(each[1]) for each in parts])
        model = HistGradientBoostingClassifier(max_depth=4, max_iter=100, random_state=seed)
        with threadpool_limits(1):  # small: threads would wait for one another
            scores = model.fit(X[learn], y[learn]).predict_proba(X[judge])[:, 1]
        found[question] = (*_auc_interval(y[judge], scores, sensors[judge], seed), int(judge.sum()))
    return found


def _auc_interval(truth, scores, sensors, seed, times=1000):
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(times):
        rows = rng.integers(len(truth), size=len(truth))
        drawn.append(auc_within(truth[rows], scores[rows], sensors[rows]))
    return auc_within(truth, scores, sensors), *np.nanquantile(drawn, [0.025, 0.975])


def auc_within(truth, scores, sensors):
    """AUC by pairs of messages of the same sensor; NaN if no sensor has a pair.

    Times may tell sensors apart, which the listener can do anyway, by the topic. A sensor whose
    symbols are mostly the same would give them away by that.
    """
    areas, pairs = [], []
    for sensor in np.unique(sensors):
        own = sensors == sensor
        ones = int(truth[own].sum())
        if 0 < ones < own.sum():
            areas.append(roc_auc_score(truth[own], scores[own]))
            pairs.append(ones * (int(own.sum()) - ones))
    return float(np.average(areas, weights=pairs)) if pairs else float("nan")
