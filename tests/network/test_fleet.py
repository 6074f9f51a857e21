"""Many sites: judged together, and served in one process."""

import json
import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from support.commands import run
from support.network_figures.many_sites import run_many_sites
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, wait_for
from support.sites import make_site, needs_mosquitto

from discreet.network.broker import Broker
from discreet.network.fleet import Fleet
from discreet.network.fusion.hosting import Together
from discreet.network.fusion.state import Pages
from discreet.network.observed import Certificate, Deployed, noted_plan
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_clients, load_site
from discreet.network.store import open_store
from discreet.network.store.rows import Batch, Decision, StoredMessage
from discreet_sensor.wire import RoundClock, mapping_tag

NAMES = ["hall", "door"]


@pytest.fixture
def sites(tmp_path):
    """Three sites that report, in a folder."""
    for name in ("attic", "barn", "cellar"):
        (tmp_path / name).mkdir()
        site = make_site(tmp_path / name, additive_mapping(names=NAMES), name=name)
        enroll(site, EnrolmentRequest("hall"), tmp_path / f"{name}.enrol")
        (tmp_path / "sites").mkdir(exist_ok=True)
        shutil.move(site, tmp_path / "sites" / name)
        report(tmp_path / "sites" / name)
    return tmp_path / "sites"


def report(folder, deployed=None):
    """Let a site look as if it ran."""
    site, now = load_site(folder), time.time()
    clock = RoundClock(site.epoch, site.interval, site.deadline)
    last = max(0, clock.number(now) - 1)
    with closing(open_store(site.database, folder, site.key)) as store:
        store.prepare()
        store.commit(Batch([StoredMessage("hall", 1, 0, last, b"\1", 0, now)]))
        store.decide([Decision(last, now, 1, 2, (0.5, 0.5), "no")])
        store.note({"queue": 0, "messages": 1}, now)
        store.plan(noted_plan(site, load_clients(folder).clients, deployed))


def levels(fleet):
    return {each.site.partition("_")[0]: each.level for each in fleet.look()}


def test_all_sites_of_a_folder_are_seen(sites, monkeypatch, capsys):
    code, printed, _ = run(monkeypatch, capsys, "fleet", sites)
    assert code == 0 and "3 sites, 0 to fix" in printed and printed.count("1 of 1") == 3
    site = load_site(sites / "barn")
    with closing(open_store(site.database, sites / "barn", site.key)) as store:
        store.alarm("hall", "cloned", "twice", 5.0)
    (sites / "attic" / "data" / "fusion.db").unlink()  # serve was never started
    code, printed, _ = run(monkeypatch, capsys, "fleet", sites, "--json")
    found = {each["site"].partition("_")[0]: each for each in json.loads(printed)}
    assert code == 3 and {name: each["level"] for name, each in found.items()} == {
        "attic": "bad", "barn": "bad", "cellar": "good",
    }  # fmt: skip
    assert found["barn"]["findings"][0]["short"] == "A device runs twice"


def test_no_site_is_lost_from_sight(sites):
    fleet = Fleet([str(sites)])
    assert levels(fleet) == {"attic": "good", "barn": "good", "cellar": "good"}
    (sites / "attic" / "site.json").unlink()
    shutil.rmtree(sites / "barn")
    (sites / "cellar" / "mapping.json").write_text("{}")
    fleet._looked -= 60
    assert levels(fleet) == {"attic": "bad", "barn": "bad", "cellar": "bad"}
    words = {each.site.partition("_")[0]: each.findings[0].short for each in fleet.look()}
    assert words["attic"] == "site.json cannot be used" and words["barn"] == "The site is gone"
    fleet.close()
    assert levels(Fleet([str(sites)])) == {"attic": "bad", "cellar": "bad"}


def test_a_database_shows_its_sites_as_their_folders_do(sites):
    soon = Deployed("sha256:0", certificates=(Certificate("broker", "broker", "1", time.time()),))
    report(sites / "barn", soon)
    databases = [f"sqlite:{sites / name / 'data' / 'fusion.db'}" for name in ("attic", "barn")]
    fleet = Fleet(databases)
    assert levels(fleet) == {"attic": "good", "barn": "bad"}
    (barn,) = [each for each in fleet.look() if each.site.startswith("barn")]
    shorts = [each.short for each in barn.findings]
    assert shorts == ["1 device with another mapping", "1 certificate ended"]
    assert dict(barn.devices) == {"reporting": 1}
    fleet.close()


def test_metrics_and_health_of_all_sites(sites):
    fleet = Fleet([str(sites)])
    with Pages(fleet, "127.0.0.1", 0) as pages:
        place = f"http://127.0.0.1:{pages.port}"
        text = urllib.request.urlopen(f"{place}/metrics").read().decode()
        assert re.findall(r'discreet_site_level{.*site="(\w+?)_\w+"} (\S+)', text) == [
            ("attic", "0.0"), ("barn", "0.0"), ("cellar", "0.0"),
        ]  # fmt: skip
        assert text.count('state="reporting"} 1.0') == 3
        assert urllib.request.urlopen(f"{place}/health").status == 200
        shutil.rmtree(sites / "barn")
        fleet._looked -= 60
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{place}/health")
    fleet.close()


@needs_mosquitto
@pytest.mark.slow
def test_many_sites_in_one_process(tmp_path, postgres):
    """Several sites share a connection; one that changes or fails ends no other."""
    with Broker.plain(tmp_path / "broker") as broker:
        plain = []
        for k in range(5):
            (tmp_path / f"site{k}").mkdir()
            mapping = additive_mapping(names=NAMES)
            site = PlainSite(tmp_path / f"site{k}", mapping, broker.port, database=postgres.url)
            site.name = f"many{k}"
            site.enrolment = site.enrol("hall", ["hall"])
            plain.append(site)
        makers = [
            lambda shared, site=site: site.service(name=f"fusion-{site.name}", shared=shared)
            for site in plain
        ]
        hosted = Together([makers])
        thread = threading.Thread(target=hosted.run)
        thread.start()
        try:
            services = hosted.services
            wait_for(lambda: all(each.listening for each in services), 240)
            assert len({id(each.store._base) for each in services}) == 1
            for site in plain:
                send(site, broker.port, 0)
            wait_for(lambda: all(len(site.stored()) == 1 for site in plain), 240)
            services[0].outdated = True
            services[0].stop()  # its site has changed
            services[1]._failure = services[1]._contest.reason
            services[1].stop()  # it has failed
            gone = set(services[:2])
            wait_for(lambda: len(hosted.services) == 4 and not gone & set(hosted.services), 240)
            wait_for(lambda: all(each.listening for each in hosted.services), 240)
            for site in plain:
                send(site, broker.port, 1)
            counts = [2, 1, 2, 2, 2]
            wait_for(lambda: [len(site.stored()) for site in plain] == counts, 240)
        finally:
            hosted.stop()
            thread.join(240)
        assert not thread.is_alive()


def send(site, port, seq):
    """Publish a message of the device of a site."""
    import paho.mqtt.publish as publish

    from discreet_sensor import wire

    number = site.clock.number(time.time()) - 2 + seq  # each for a later round than the last
    tag = mapping_tag(site.mapping.id)
    topic = wire.message_topic(site.name, "hall")
    message = wire.Message(1, seq, number, 0, b"\1", tag)
    sealed = wire.encode(message, bytes.fromhex(site.clients["hall"].key), topic)
    publish.single(topic, sealed, qos=1, hostname="127.0.0.1", port=port)


@needs_mosquitto
@pytest.mark.slow
def test_many_sites_lose_nothing(tmp_path, postgres):
    """A short version of research/benchmarks/network/many_sites.py."""
    found = run_many_sites(
        tmp_path, postgres.url, sites=30, sensors=5, interval=4.0, rounds=3, deadline=8.0
    )
    assert found.lost == 0 and found.sent == found.stored == 30 * 5 * 3
    assert found.decided == 30 * 3
