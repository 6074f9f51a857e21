"""Sites to look at: in good health, in trouble, hostile, and new. All figures are made up."""

import copy
import json
import math
import os
import random
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import numpy as np
import uvicorn

from discreet.auditing.recheck import Claim, begin, judge
from discreet.auditing.recheck_bets import LabelledRows
from discreet.data.encoders import BinsEncoder
from discreet.frontiers.results import Frontier
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveClassesFusion, AdditiveFusion, Design, Fact
from discreet.network.dashboard.serving import (
    DashboardTask,
    StoppableServer,
    listen,
    make_dashboard,
)
from discreet.network.site.settings import Client, Clients, Site, save_clients
from discreet.network.store import open_store
from discreet.network.store.rows import Batch, Decision, StoredMessage
from support.frontiers import ABOUT, point

PASSWORD = "correct horse battery"
SENSORS = ("hall", "kitchen", "bedroom", "bathroom", "front door", "stairs")
HOSTILE = ('<script>alert("x")</script>', "</td></tr><h1>", "n" * 200, "שלום 😀", "{{ 7 * 7 }}")
INTERVAL = 30.0


def make_mapping(names=SENSORS, public="fall", classes=(False, True)):
    tables = [[[0.85, 0.15], [0.7, 0.3], [0.3, 0.7]]] * len(names)
    return Mapping.create(
        names=names,
        encoders=[BinsEncoder(edges=[0.5, 1.5])] * len(names),
        tables=tables,
        public=Fact(name=public, classes=list(classes)),
        private=[Fact(name="who", classes=["ann", "bob"])],
        fusion=_fusion(len(names), len(classes)),
        design=Design(
            method="npo",
            parameters={},
            rows=4000,
            created="2026-05-01T12:00:00+00:00",
            discreet="0.1.0",
        ),
    )


def _fusion(sensors, classes):
    if classes == 2:
        return AdditiveFusion(weights=[[-1.0, 1.0]] * sensors)
    weights = [[[0.0, float(k)]] * sensors for k in range(classes)]
    return AdditiveClassesFusion(weights=weights, bias=[0.0] * classes)


def make_audit(mapping, day, *, bound=0.06, reached=0.02, rows=4000, limits=True, facts=("who",)):
    """Return the part of an audit's JSON that the dashboard looks at, and some more."""

    def certificate(name, value):
        known = {"certifiable": False, "reason": "few rows"} if value is None else {"value": value}
        return {"name": name, "certifiable": True, "words": "…", **known}

    check = {"name": "advantage", "limit": 0.1, "state": "met", "words": "within", "radius": 0.06}
    return {
        "format": "discreet-audit",
        "version": 1,
        "program": "discreet 0.1.0",
        "ok": True,
        "mapping_id": mapping.id,
        "rows": rows,
        "confidence": 0.95,
        "date": day.isoformat(),
        "verdict": f"WITHIN LIMITS: advantage of 'who' is at most {bound}.",
        "public": {"name": "fall", "error": 0.071, "error_low": 0.06, "error_high": 0.08},
        "private": [
            {
                "name": fact,
                "certificates": [
                    certificate("advantage", bound),
                    certificate("information epsilon", 0.31),
                ],
                "attacks": {"best": {"name": "forest", "advantage": 0.03, "lower": reached}},
                "figures": {"advantage": 0.034},
            }
            for fact in facts
        ],
        "limits": [check] if limits else [],
    }


def make_recheck(mapping, certified, looked, *, leaks=False, rows=260):
    """Return a re-check with rows that agree with a certificate, or do not."""
    rng = np.random.default_rng(0)
    fact = mapping.private[0]
    found = begin(mapping, [Claim(fact=fact.name, limit=0.1)], certified)
    private = rng.integers(2, size=rows)
    codes = rng.integers(2, size=(rows, len(mapping.sensors)))
    codes = 2 * np.where(leaks, private[:, None], codes)
    judge(found, mapping, LabelledRows(codes, rng.integers(2, size=rows), [private]), looked)
    return found


def make_frontier(mapping):
    places = [(0.31, 0.02), (0.2, 0.028), (0.13, 0.04), (0.034, 0.071), (0.02, 0.16), (0.008, 0.29)]
    points = [
        point(leak, error, 0.9 + 0.015 * k, mapping=mapping.id if k == 3 else "sha256:" + 64 * "0")
        for k, (leak, error) in enumerate(places)
    ]
    points += [point(leak + 0.05, error + 0.05, 0.9, method="ndd") for leak, error in places[1:2]]
    return Frontier.of(ABOUT, points)


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")


class SiteMaker:
    """Makes the folder of a site and fills its store."""

    def __init__(self, folder, *, mapping=None, expires=None, now=None, interval=INTERVAL):
        self.folder, self.mapping = folder, mapping or make_mapping()
        self.now = time.time() if now is None else now
        self.today = datetime.fromtimestamp(self.now, UTC).date()
        folder.mkdir(mode=0o700)
        for name in ("fusion", "dashboard"):
            (folder / name).mkdir(mode=0o700)
        self.epoch = int(self.now) - 6 * 3600
        self.site = Site(
            site="home",
            epoch=self.epoch,
            interval=interval,
            deadline=2.0,
            broker={"port": 8883},
            expires=expires,
        )
        (folder / "site.json").write_text(self.site.model_dump_json(), encoding="utf-8")
        self.mapping.save(folder / "mapping.json")
        self.open()
        self.store.prepare()
        self.clients = {}

    def open(self):
        self.store = open_store(self.site.database, self.folder, self.site.key)

    def copied_to(self, folder):
        """Return the same site in another folder; nobody may have it open."""
        shutil.copytree(self.folder, folder)
        other = copy.copy(self)
        other.folder, other.clients = folder, dict(self.clients)
        other.open()
        return other

    def round_at(self, moment):
        return int((moment - self.epoch) // self.site.interval)

    def enroll(self, name, sensors=None, **known):
        self.clients[name] = Client(
            sensors=sensors or (name,),
            key=os.urandom(32).hex(),
            serial="0a",
            enrolled=datetime.now(UTC),
            **known,
        )
        save_clients(self.folder, Clients(clients=self.clients))

    def heard(self, name, ago=3.0, spent=0.0, messages=3, symbols=b"\1"):
        at = self.now - ago
        micro = round(spent * 1e6)
        self.store.commit(Batch([
            StoredMessage(name, 1, k, self.round_at(at) - messages + k, symbols, micro, at)
            for k in range(messages)
        ]))  # fmt: skip

    def refuse(self, **reasons):
        counts = Counter({tuple(key.split("__")): count for key, count in reasons.items()})
        self.store.commit(Batch(refusals=counts))

    def decide(self, hours=3.0, until=2.0, expected=6, seed=0):
        rng = random.Random(seed)
        first, last = self.round_at(self.now - 3600 * hours), self.round_at(self.now - until)
        classes = [str(each) for each in self.mapping.public.classes]
        decisions = []
        for k in range(first, last + 1):
            wave = 0.5 + 0.42 * math.sin(k / 55) * math.sin(k / 19)
            p = min(max(wave**2 + rng.gauss(0, 0.03), 0.004), 0.996)
            rest = [(1 - p) / (len(classes) - 1)] * (len(classes) - 1)
            probabilities = (*rest, p)
            best = max(range(len(classes)), key=probabilities.__getitem__)
            closed = self.epoch + (k + 1) * self.site.interval
            reported = expected - (rng.random() < 0.15)
            decisions.append(
                Decision(k, min(closed, self.now), reported, expected, probabilities, classes[best])
            )
        self.store.decide(decisions)

    def note(self, minutes=15, rate=0.6):
        rng = random.Random(1)
        total = 10_000.0
        for k in (*range(minutes, 0, -1), 0.4, 0):
            at = self.now - 60 * k
            total += 60 * rate * (1 + 0.3 * math.sin(k / 4) + 0.1 * rng.random())
            lag = 0.02 + 0.01 * rng.random()
            parts = {"broker": {"state": "here", "since": at, "words": ""}}
            values = {"messages": round(total), "lag_seconds": lag, "queue": 0, "shed": 0}
            self.store.note(values | {"parts": parts}, at)


def healthy(folder, **options):
    """Six devices, a certificate in force and a re-check that agrees."""
    day = timedelta(days=1)
    maker = SiteMaker(folder, expires=date.today() + 80 * day, **options)
    for k, sensor in enumerate(SENSORS):
        name = sensor.replace(" ", "-")
        maker.enroll(name, (sensor,), budget=20.0)
        maker.heard(name, ago=1.0 + k, spent=2.5 + 1.5 * k, messages=40 + k)
    maker.decide()
    maker.note()
    write(folder / "audit.json", make_audit(maker.mapping, maker.today - 10 * day))
    make_recheck(maker.mapping, maker.today - 10 * day, maker.today - 2 * day).save(
        folder / "recheck.json"
    )
    make_frontier(maker.mapping).save(folder / "frontier.json")
    return maker


def troubled(folder):
    """Silent, unknown and revoked devices, spent budgets, refusals, an expired certificate."""
    day = timedelta(days=1)
    maker = SiteMaker(folder, expires=date.today() - 3 * day)
    maker.enroll("hall", budget=20.0)
    maker.heard("hall", spent=20.0)
    maker.enroll("kitchen", budget=20.0)
    maker.heard("kitchen", ago=900.0, spent=18.7)
    maker.enroll("gateway", ("bedroom", "bathroom", "front door", "stairs"))
    maker.heard("gateway", spent=3.0, symbols=b"\0\1\0\1")
    maker.enroll("old-hall", ("hall",), revoked=datetime.now(UTC))
    maker.enroll("attic", ("hall-2",))
    maker.decide()
    maker.note()
    maker.refuse(kitchen__mac=12, kitchen__replay=3, gateway__late=40, stranger__malformed=7)
    write(folder / "audit.json", make_audit(maker.mapping, maker.today - 100 * day))
    make_recheck(maker.mapping, maker.today - 100 * day, maker.today - day, leaks=True).save(
        folder / "recheck.json"
    )
    make_frontier(maker.mapping).save(folder / "frontier.json")
    return maker


def hostile(folder):
    """Names that want to be markup, and several classes."""
    mapping = make_mapping(HOSTILE, public=HOSTILE[0], classes=("<b>", "two", HOSTILE[3]))
    maker = SiteMaker(folder, mapping=mapping)
    for k, sensor in enumerate(HOSTILE):
        maker.enroll(f"d{k}", (sensor,))
        maker.heard(f"d{k}")
    maker.decide()
    facts = (HOSTILE[0], HOSTILE[2])
    write(folder / "audit.json", make_audit(mapping, maker.today, facts=facts))
    write(folder / "recheck.json", {"format": HOSTILE[0]})
    return maker


def new(folder):
    """A site right after ``discreet init``: nothing has happened."""
    maker = SiteMaker(folder)
    save_clients(folder, Clients())
    return maker


SITES = {"healthy": healthy, "troubled": troubled, "hostile": hostile, "new": new}


@contextmanager
def served(folder):
    """Serve a site's dashboard on a free port of this machine; yield its address."""
    dashboard, _, (host, _) = make_dashboard(DashboardTask(folder))
    listening = listen(host, 0)
    config = uvicorn.Config(dashboard.app, log_level="warning", lifespan="off", ws="none")
    server = StoppableServer(config, dashboard)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.handle_exit(0, None)
        thread.join(60)
        listening.close()
