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

from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.recheck import Claim, begin, judge
from discreet.auditing.recheck_bets import LabelledRows
from discreet.data.encoders import BinsEncoder
from discreet.errors import shown
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
from discreet.rounding import at_most, bounded, plain_points
from support.frontiers import ABOUT, point

PASSWORD = "correct horse battery"
SENSORS = ("hall", "kitchen", "bedroom", "bathroom", "front door", "stairs")
HOSTILE = ('<script>alert("x")</script>', "</td></tr><h1>", "n" * 200, "שלום 😀", "{{ 7 * 7 }}")
INTERVAL = 30.0


ANSWERS = {"False": "Nobody has fallen", "True": "Somebody has fallen"}


def make_mapping(names=SENSORS, public="fall", classes=(False, True), private=("who",)):
    tables = [[[0.85, 0.15], [0.7, 0.3], [0.3, 0.7]]] * len(names)
    return Mapping.create(
        names=names,
        encoders=[BinsEncoder(edges=[0.5, 1.5])] * len(names),
        tables=tables,
        public=Fact(name=public, classes=list(classes)),
        private=[Fact(name=name, classes=["ann", "bob"]) for name in private],
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

    check = {"name": "advantage", "limit": 0.1, "state": "met", "words": "", "radius": 0.06}
    return settle({
        "format": "discreet-audit",
        "version": 1,
        "program": "discreet 0.1.0",
        "ok": True,
        "mapping_id": mapping.id,
        "rows": rows,
        "confidence": 0.95,
        "date": day.isoformat(),
        "verdict": "",
        "public": {
            "name": "fall",
            "error": 0.071,
            "error_low": 0.06,
            "error_high": 0.08,
            "balanced": {"estimate": 0.91849, "low": 0.90349, "high": 0.93049},
        },
        "private": [
            {
                "name": fact,
                "certificates": [
                    certificate("advantage", bound),
                    certificate("information epsilon", 0.31),
                ],
                "attacks": {
                    "best": {"name": "forest", "advantage": 0.03, "lower": reached},
                    "best_on_readings": {"name": "svm", "advantage": 0.46, "lower": 0.4419},
                },
                "figures": {"advantage": 0.034},
            }
            for fact in facts
        ],
        "limits": [check] if limits else [],
    })  # fmt: skip


def settle(audit):
    """Return a made-up audit with words, limits and verdict that follow from its figures."""
    for fact in audit["private"]:
        parts = [fact.get(name) or {} for name in ("over_time", "beyond_answer", "rounds")]
        known = [each for part in parts for each in part.values() if isinstance(each, dict)]
        for each in (*fact["certificates"], *known):
            if "value" in each and not _quotes(each):
                each["words"] = f"No attacker beats guessing by more than {at_most(each['value'])}."
            if each["name"] == "information epsilon" and each.get("value") is not None:
                each["words"] = f"At most exp({bounded('epsilon', each['value'])}) times as likely."
    read = AuditSummary.model_validate(audit)
    for check in audit["limits"]:
        _settle_limit(check, read)
    failed = [check for check in audit["limits"] if check["state"] != "met"]
    leaks = [check for check in failed if check["state"] == "broken"]
    word = "LEAKS" if leaks else "NOT SHOWN" if failed else "NO LIMIT STATED"
    if audit["limits"] and not failed:
        word = "WITHIN LIMITS" + " ON CONDITION" * bool(audit.get("conditions"))
    said = "; ".join(each["words"] for each in leaks or failed or audit["limits"])
    return audit | {"ok": not failed, "verdict": f"{word}: {said}."}


def _quotes(each):
    return at_most(each["value"]) in each.get("words", "")


def _settle_limit(check, read):
    facts = {fact.name: (read.state_of(fact), read.promised(fact)) for fact in read.private}
    check.setdefault("fact", next(iter(facts)))
    if check["name"] == "epsilon":
        _settle_epsilon(check, read)
        return
    order = ("broken", "not shown", "met")
    worst = min(facts, key=lambda name: (order.index(facts[name][0]), -(facts[name][1] or 9.0)))
    state, upper = facts[worst]
    bound = "no bound" if upper is None else at_most(upper, check["limit"])
    check |= {"fact": worst, "state": state, "upper": upper}
    check["words"] = _words(check, read, bound, plain_points(check["limit"]))


def _settle_epsilon(check, read):
    fact = next(each for each in read.private if each.name == check["fact"])
    upper = read.epsilon_of(fact)
    met = upper is not None and upper <= check["limit"]
    check |= {"upper": upper, "state": "met" if met else "not shown"}
    bound = "no bound" if upper is None else bounded("epsilon", upper)
    check["words"] = _words(check, read, bound, f"{check['limit']:g}")


def _words(check, read, bound, stated):
    several = read.releases > 1 or read.private[0].rounds is not None
    span = f"over {read.span}" if several else "in one report"
    who = f"the {check['name']} of {shown(check['fact'])} {span}"
    return f"{who} is at most {bound}, where it has a limit of {stated}"


def make_recheck(mapping, certified, looked, *, leaks=False, rows=260, limit=0.1, facts=None):
    """Return a re-check with rows that agree with a certificate, or do not.

    ``facts``: the private facts that are tested, by default all.
    """
    rng = np.random.default_rng(0)
    names = [fact.name for fact in mapping.private] if facts is None else facts
    found = begin(mapping, [Claim(fact=name, limit=limit) for name in names], certified)
    private = rng.integers(2, size=rows)
    codes = rng.integers(2, size=(rows, len(mapping.sensors)))
    codes = 2 * np.where(leaks, private[:, None], codes)
    judge(
        found,
        mapping,
        LabelledRows(codes, rng.integers(2, size=rows), [private] * len(mapping.private)),
        looked,
    )
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

    def __init__(
        self, folder, *, mapping=None, expires=None, now=None, interval=INTERVAL, answers=None
    ):
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
            answers=ANSWERS if answers is None else answers,
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
            enrolled=datetime.fromtimestamp(self.epoch, UTC),
            **known,
        )
        save_clients(self.folder, Clients(clients=self.clients))

    def heard(self, name, ago=3.0, spent=0.0, messages=3, symbols=b"\1", gaps=(), late=()):
        """Store messages of successive rounds, the last one so many seconds ago.

        ``gaps``: which of them never came, counted back from the last. ``late``: which came late.
        """
        at, micro = self.now - ago, round(spent * 1e6)
        self.store.commit(Batch([
            StoredMessage(
                name, 1, messages - k, self.round_at(at) - 1 - k, symbols, micro,
                min(at, at - k * self.site.interval + 200.0 * (k in late)),
            )
            for k in reversed(range(messages))
            if k not in gaps
        ]))  # fmt: skip

    def refuse(self, **reasons):
        counts = Counter({tuple(key.split("__")): count for key, count in reasons.items()})
        self.store.commit(Batch(refusals=counts))

    def decide(self, hours=3.0, until=2.0, expected=6, seed=0, missing=0):
        rng = random.Random(seed)
        first, last = self.round_at(self.now - 3600 * hours), self.round_at(self.now - until)
        classes = [str(each) for each in self.mapping.public.classes]
        decisions = []
        for k in range(first, last + 1):
            ago = last - k  # one class after the other, the first one now; unsure where they change
            best, into = ago // 23 % len(classes), ago % 23
            p = 0.95 - 0.3 * (into > 18) + rng.gauss(0, 0.01)
            rest = (1 - p) / (len(classes) - 1)
            probabilities = tuple(p if c == best else rest for c in range(len(classes)))
            closed = self.epoch + (k + 1) * self.site.interval
            reported = expected - missing - (rng.random() < 0.15)
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
        maker.heard(name, ago=1.0 + k, spent=2.5 + 1.5 * k, messages=130 + k)
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
    facts, classes = (HOSTILE[1], HOSTILE[2]), ("<b>", "two", HOSTILE[3])
    mapping = make_mapping(HOSTILE, public=HOSTILE[0], classes=classes, private=facts)
    maker = SiteMaker(folder, mapping=mapping, answers={"<b>": "<i>x</i>" + "n" * 100})
    for k, sensor in enumerate(HOSTILE):
        maker.enroll(f"d{k}", (sensor,))
        maker.heard(f"d{k}")
    maker.decide()
    write(folder / "audit.json", make_audit(mapping, maker.today, facts=facts))
    write(folder / "recheck.json", {"format": HOSTILE[0]})
    return maker


def new(folder):
    """A site right after ``discreet init``: nothing has happened, and there is no database yet."""
    maker = SiteMaker(folder)
    save_clients(folder, Clients())
    maker.store.close()
    for file in (folder / "fusion").glob("fusion.db*"):
        file.unlink()
    return maker


# --- One state each ---------------------------------------------------------------------------


def unsure(folder):
    maker = healthy(folder)
    number, at = maker.store.last_decided() + 1, maker.now
    maker.store.decide([Decision(number, at, 6, 6, (0.44, 0.56), "True")])
    return maker


def rechecked(folder, *, rows=260, leaks=False, ago=10):
    """A re-check with few rows, or with rows that contradict the certificate."""
    maker, day = healthy(folder), timedelta(days=1)
    certified = maker.today - ago * day
    make_recheck(maker.mapping, certified, maker.today - day, leaks=leaks, rows=rows).save(
        folder / "recheck.json"
    )
    return maker


def broken(folder):
    return rechecked(folder, leaks=True)


def due(folder):
    return rechecked(folder, rows=9)


def without(*names):
    def make(folder):
        maker = healthy(folder)
        for name in names:
            (folder / name).unlink()
        return maker

    return make


def expired(folder):
    maker = healthy(folder)
    settings = maker.site.model_copy(update={"expires": maker.today - timedelta(days=3)})
    (folder / "site.json").write_text(settings.model_dump_json(), encoding="utf-8")
    return maker


def silent(folder):
    maker = healthy(folder)
    maker.store._base.change("UPDATE clients SET last_seen = last_seen - 900 WHERE client = 'hall'")
    maker.store._base.change(
        f"DELETE FROM messages WHERE client = 'hall' AND received > {maker.now - 900}"
    )
    return maker


def unheard(folder):
    """Every device is silent; rounds are closed with what is expected of none of them."""
    maker = healthy(folder)
    maker.store._base.change("UPDATE clients SET last_seen = last_seen - 900")
    maker.store._base.change(f"DELETE FROM messages WHERE received > {maker.now - 900}")
    maker.store._base.change(
        "UPDATE decisions SET reported = 0, decision = 'False', probabilities = '[0.52, 0.48]' "
        f"WHERE round > {maker.store.last_decided() - 9}"
    )
    return maker


def quiet(folder):
    """The fusion centre has noted nothing for a minute."""
    maker = healthy(folder)
    maker.store._base.change("UPDATE health SET at = at - 60")
    return maker


def revoked(folder):
    maker = healthy(folder)
    at = datetime.fromtimestamp(maker.now - 1200, UTC)
    maker.clients["hall"] = maker.clients["hall"].model_copy(update={"revoked": at})
    save_clients(folder, Clients(clients=maker.clients))
    maker.store._base.change(
        f"UPDATE clients SET last_seen = {maker.now - 1200} WHERE client = 'hall'"
    )
    maker.store._base.change(
        f"DELETE FROM messages WHERE client = 'hall' AND received > {maker.now - 1200}"
    )
    return maker


def suspended(folder):
    maker = healthy(folder)
    maker.store._base.change(
        f"DELETE FROM messages WHERE client = 'hall' AND received > {maker.now - 300}"
    )
    for ago in range(300, -1, -30):
        maker.store.note({"suspended": {"hall": "mac, for 60 s"}}, maker.now - ago)
    return maker


def jumped(folder):
    maker = healthy(folder)
    words = "It went 2 hours ahead within a second; rounds go on by the devices' messages."
    parts = {
        "broker": {"state": "here", "since": maker.now, "words": ""},
        "clock": {"state": "unsure", "since": maker.now, "words": words},
    }
    maker.store.note({"parts": parts}, maker.now)
    return maker


def spent(folder):
    maker = healthy(folder)
    for name, micro in (("hall", 20e6), ("kitchen", 19.9e6), ("bedroom", 18.3e6)):
        maker.store._base.change(f"UPDATE clients SET spent = {micro:.0f} WHERE client = '{name}'")
    return maker


def unreadable(folder):
    """A database that is none."""
    maker = healthy(folder)
    maker.store.close()
    for file in (folder / "fusion").glob("fusion.db*"):
        file.unlink()
    (folder / "fusion" / "fusion.db").write_bytes(b"not a database " * 100)
    return maker


ROOMS = ("sleeping", "cooking", "washing", "resting", "away")


def many(count, classes=(False, True), private=("who",), answers=None):
    """A site with so many sensors, of which some are late, silent, suspended, revoked or new."""

    def make(folder):
        names = [f"room-{k:02d}-{what}" for k in range(count) for what in ("door", "motion")]
        names, day = names[:count], timedelta(days=1)
        public = "fall" if len(classes) == 2 else "activity"
        mapping = make_mapping(names, public, classes, private)
        maker = SiteMaker(folder, mapping=mapping, expires=date.today() + 80 * day, answers=answers)
        for k, name in enumerate(names):
            odd = (k % 11 == 4, k % 13 == 7, k % 29 == 12, k % 37 == 20, k % 41 == 30)
            gone = datetime.fromtimestamp(maker.now - 1500, UTC) if odd[3] else None
            maker.clients[name] = Client(
                sensors=(name,), key=os.urandom(32).hex(), serial="0a", budget=400.0,
                enrolled=datetime.fromtimestamp(maker.epoch, UTC), revoked=gone,
            )  # fmt: skip
            if not odd[4]:
                maker.heard(
                    name,
                    ago=1500.0 if odd[3] else 600.0 if odd[2] else 1.0 + k % 7,
                    spent=k * 390 / count,
                    messages=130,
                    gaps=range(30 + k % 9, 44 + k % 9) if odd[0] else (),
                    late=range(10, 16) if odd[1] else (),
                )
        save_clients(folder, Clients(clients=maker.clients))
        maker.decide(expected=count, missing=count // 12)
        maker.note()
        for ago in range(300, -1, -30):
            maker.store.note({"suspended": {names[1]: "mac, for 60 s"}}, maker.now - ago)
        write(
            folder / "audit.json",
            make_audit(mapping, maker.today - 10 * day, facts=private),
        )
        found = make_recheck(mapping, maker.today - 10 * day, maker.today - 2 * day)
        found.save(folder / "recheck.json")
        return maker

    return make


SITES = {
    "healthy": healthy, "troubled": troubled, "hostile": hostile, "new": new,
    "unheard": unheard, "quiet": quiet,
}  # fmt: skip
STATES = {
    "fresh": new,
    "well": healthy,
    "unsure": unsure,
    "broken re-check": broken,
    "re-check due": due,
    "never re-checked": without("recheck.json"),
    "no certificate": without("audit.json", "recheck.json"),
    "certificate expired": expired,
    "sensor silent": silent,
    "no sensor heard": unheard,
    "fusion centre silent": quiet,
    "device revoked": revoked,
    "device suspended": suspended,
    "clock jumped": jumped,
    "budget spent": spent,
    "database damaged": unreadable,
    "5 sensors": many(5),
    "55 sensors": many(55),
    "100 sensors, 5 classes, 2 secrets": many(
        100, ROOMS, ("who", "how many people"), {each: f"Somebody is {each}" for each in ROOMS[:4]}
    ),
    "hostile names": hostile,
}
"""Every state that is looked at as a picture."""


@contextmanager
def served(folder, at=None, **task):
    """Serve a site's dashboard on a free port of this machine; yield its address.

    ``at``: the time at which it stands still, so that nothing grows old while it is looked at.
    """
    dashboard, _, (host, _) = make_dashboard(DashboardTask(folder, **task))
    if at is not None:
        dashboard._snapshots._clock = lambda: at
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
