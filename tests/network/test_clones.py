"""One file used twice, a site served twice: noticed, named, and one side stops."""

import shutil
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, Running, wait_for
from support.sites import broker_of, make_site, needs_mosquitto

from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.network.broker import Broker
from discreet.network.fusion.hosting import fusion_settings
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.service import FusionService
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import SiteFiles, load_site
from discreet.network.store import open_reader, open_store
from discreet.network.store.rows import CLONED, COPIED
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.running import SensorTask, run_sensor
from discreet_sensor.sources import Source, Sources

pytestmark = [pytest.mark.slow, needs_mosquitto]

NAMES = ["hall", "door", "bed"]


class Always(Source):
    def take(self):
        return {"hall": 1}


class Device(threading.Thread):
    """A sensor that runs until it is stopped, or stops by itself."""

    def __init__(self, enrolment, folder):
        super().__init__(daemon=True)
        self.task, self.halt, self.problem = (
            SensorTask(enrolment, folder, retry=0.3),
            threading.Event(),
            "",
        )
        self.start()

    def run(self):
        try:
            run_sensor(self.task, Sources([Always()]), self.halt)
        except InputError as error:
            self.problem = str(error)

    def stop(self):
        self.halt.set()
        self.join(60)


def alarms(site):
    with closing(site.reader()) as reader:
        return [(each.client, each.kind) for each in reader.alarms()]


def test_of_two_devices_with_one_file_the_later_one_stops(tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        site = PlainSite(tmp_path, additive_mapping(names=NAMES), broker.port, interval=0.5)
        enrolment = site.enrol("hall", ["hall"])
        with Running(site.service()) as service:
            first = Device(enrolment, tmp_path / "first")
            wait_for(lambda: service.state.value("messages") > 1)
            boot = site.stored()[0][1]
            wait_for(lambda: len(site.stored()) > 2)
            second = Device(replace(enrolment, boot=boot + 5), tmp_path / "second")
            wait_for(lambda: not second.is_alive())
            assert "another device sends as 'hall'" in second.problem
            wait_for(lambda: ("hall", CLONED) in alarms(site))
            count = len(site.stored())
            wait_for(lambda: len(site.stored()) > count + 2)
            assert first.is_alive() and first.problem == ""
            first.stop()


def serve(folder):
    site, files = load_site(folder), SiteFiles(folder)
    mapping = Mapping.load(folder / site.mapping)
    registry = Registry(files.clients, site.site, mapping)
    store = open_store(site.database, folder, site.key)
    return FusionService(fusion_settings(folder), mapping, registry, store)


@pytest.mark.parametrize("with_database", [True, False])
def test_a_copy_of_a_site_that_is_served_stops_and_acknowledges_nothing(tmp_path, with_database):
    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=0.2, deadline=1.0)
    key = load_site(site).key
    enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    with broker_of(site), Running(serve(site)) as service:
        device = Device(load_enrolment(tmp_path / "hall.enrol"), tmp_path / "hall")
        wait_for(lambda: service.state.value("messages") > 3)
        shutil.copytree(site, tmp_path / "copy")
        if not with_database:
            for file in (tmp_path / "copy/data").glob("fusion.db*"):
                file.unlink()
        with closing(open_store("sqlite:data/fusion.db", tmp_path / "copy", key)) as store:
            store.prepare()
            before = len(store.messages(0, 2**32))
        copy = serve(tmp_path / "copy")
        with pytest.raises(InputError, match="another fusion centre of the site 'home' runs"):
            copy.run()
        with closing(open_store("sqlite:data/fusion.db", tmp_path / "copy", key)) as store:
            assert len(store.messages(0, 2**32)) == before
        count = service.state.value("messages")
        wait_for(lambda: service.state.value("messages") > count + 3)
        device.stop()
        with closing(open_reader("sqlite:data/fusion.db", site, key)) as reader:
            wait_for(lambda: [each.kind for each in reader.alarms()] == [COPIED])


def test_a_site_that_was_copied_to_another_place_goes_on_there(tmp_path):
    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=0.2, deadline=1.0)
    with broker_of(site):
        with Running(serve(site)) as service:
            wait_for(lambda: service.state.value("decisions") > 0)
        shutil.copytree(site, tmp_path / "moved")
        with Running(serve(tmp_path / "moved")) as service:
            wait_for(lambda: service.state.value("decisions") > 0)
        with closing(
            open_store("sqlite:data/fusion.db", tmp_path / "moved", load_site(site).key)
        ) as store:
            assert store.is_at_home()
