import os
import re
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from support.helpers import make_mapping, refused
from support.sites import Visitor, broker_of, eventually, fusion_visitor, make_site, needs_mosquitto

from discreet import Mapping
from discreet.network.broker import Broker
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.making import make_folder
from discreet.network.site.settings import (
    BrokerEndpoint,
    Client,
    Clients,
    SiteFiles,
    load_clients,
    load_devices,
    load_site,
)


def certificate(file):
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_a_site_holds_what_the_parts_read_and_only_its_owner_can(tmp_path):
    old = os.umask(0)
    try:
        site = make_site(tmp_path, name="care-home", workers=2)
    finally:
        os.umask(old)
    settings = load_site(site)
    assert (settings.site, settings.workers) == ("care-home", 2)
    assert settings.epoch <= datetime.now(UTC).timestamp() < settings.epoch + settings.interval
    assert Mapping.load(site / settings.mapping) == Mapping.load(tmp_path / "home.json")
    assert load_clients(site) == Clients()
    assert SiteFiles(site).database(settings) == f"sqlite:{site}/data/fusion.db"
    for path in [site, *site.rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    for worker in ("fusion", "fusion-2"):
        assert certificate(site / "fusion" / f"{worker}.crt")


def test_certificates_are_of_the_sites_own_authority_and_name_its_hosts(tmp_path):
    site = make_site(tmp_path, broker=BrokerEndpoint(host="gateway.local", port=8883))
    authority, broker = certificate(site / "keys/ca.crt"), certificate(site / "broker/broker.crt")
    assert isinstance(authority.public_key(), ec.EllipticCurvePublicKey)
    broker.verify_directly_issued_by(authority)
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"gateway.local", "localhost"}
    assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}
    ten_years = datetime.now(UTC) + timedelta(days=3650)
    revoked = x509.load_pem_x509_crl((site / "broker/ca.crl").read_bytes())
    assert revoked.is_signature_valid(authority.public_key())
    # A list that ends before the authority would one day lock everybody out.
    assert revoked.next_update_utc == authority.not_valid_after_utc > ten_years
    assert broker.not_valid_after_utc > ten_years


@needs_mosquitto
def test_mosquitto_takes_the_configuration_and_serves_the_fusion_centre(tmp_path):
    site = make_site(tmp_path)
    port = load_site(site).broker.port
    with broker_of(site) as broker:
        fusion = fusion_visitor(site)
        assert fusion.connect(port)
        fusion.leave()
        log = (site / "broker/mosquitto.log").read_text()
        assert "as fusion (p5, c1" in log
        complaints = re.findall(r"^\d+: (?:Error|Warning|Note|Unable).*", log, re.MULTILINE)
        assert [each for each in complaints if "run as root" not in each] == []
        assert (site / "broker/mosquitto.pid").read_text().strip() == str(broker.process.pid)
        bare = Visitor(site, "hall", tls=False)
        assert not bare.connect(port)
    assert not broker.running


@needs_mosquitto
def test_a_site_may_be_moved(tmp_path):
    site = make_site(tmp_path)
    moved = tmp_path / "else where"
    site.rename(moved)
    with broker_of(moved):
        fusion = fusion_visitor(moved)
        assert fusion.connect(load_site(moved).broker.port)
        fusion.leave()


@needs_mosquitto
def test_a_broker_that_cannot_start_says_why(tmp_path):
    broker = Broker.plain(tmp_path / "broker")
    (broker.folder / "mosquitto.conf").write_text("listener nonsense\n")
    refused("Mosquitto did not start: .*nonsense|Mosquitto did not start: .*listener", broker.start)
    with Broker.plain(tmp_path / "first") as first:
        refused("is in use", Broker.plain(tmp_path / "second", first.port).start)
        first.kill()
        assert eventually(lambda: not first.running)


# --- Mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "My Home"}, "My Home"),
        ({"name": ""}, "name of the site"),
        ({"name": "a" * 33}, "name of the site"),
        ({"interval": 0.0}, "--interval must be from 0.01 to 86400 seconds, got 0"),
        ({"interval": float("nan")}, "--interval must be .* got nan"),
        ({"deadline": -1.0}, "--deadline must be .* got -1"),
        ({"broker": BrokerEndpoint(host="0.0.0.0", port=1)}, "--host 0.0.0.0 is no address"),
        ({"database": "mysql://x"}, "database: .*sqlite: or postgresql://"),
    ],
)
def test_a_wrong_request_is_one_message_and_leaves_nothing(tmp_path, changes, words):
    refused(words, make_site, tmp_path, **changes)
    assert [path.name for path in tmp_path.iterdir()] == ["home.json"]


def test_a_folder_in_use_is_left_alone(tmp_path):
    site = make_site(tmp_path)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    refused(f"^{re.escape(str(site))} is not an empty folder", make_site, tmp_path)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before
    assert load_site(site)


def test_a_site_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    written = []

    def full_disk(handle):
        written.append(handle)
        if len(written) == 10:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet_sensor.files.os.fsync", full_disk)
    refused("No space left on device", make_site, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["home.json"]


def test_an_audit_or_frontier_that_is_none_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    make_mapping().save(tmp_path / "home.json")
    for option in ("audit", "frontier"):
        for file in ("a.json", "home.json"):  # the latter is of ours, and neither of the two
            given = tmp_path / "site", tmp_path / "home.json"
            refused(file, make_folder, *given, **{option: tmp_path / file})
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"site": "home"}', "[" * 100_000])
def test_damaged_settings_are_one_message(tmp_path, text):
    (tmp_path / "site.json").write_text(text, encoding="latin-1")
    refused("site.json", load_site, tmp_path)


def test_settings_that_are_no_file_are_refused(tmp_path):
    refused("is no site", load_site, tmp_path)
    os.mkfifo(tmp_path / "site.json")
    refused("not a regular file", load_site, tmp_path)


def test_a_key_is_shown_in_no_message_and_no_repr(tmp_path):
    site = make_site(tmp_path)
    secret = "0123456789abcdef" * 4
    about = {"sensors": ["hall"], "serial": "1", "enrolled": "2026-01-01T00:00:00Z"}
    assert secret not in repr(Client(key=secret, **about))
    file = SiteFiles(site).clients
    file.write_text(f'{{"clients": {{"hall": {{"key": "{secret}00"}}}}}}')
    assert secret not in refused("clients.json", load_clients, site)


@pytest.mark.parametrize("url", ["postgresql://u:se%zcret@h/d", "postgresql://u:se@cret@h/d"])
def test_a_password_that_the_driver_would_show_is_refused_unseen(tmp_path, url):
    assert "cret" not in refused("%40 and %25", make_site, tmp_path, database=url)
    file = make_site(tmp_path, database="postgresql://u:se%40cret@h/d") / "site.json"
    file.write_text(file.read_text().replace("postgresql://u:se%40cret@h/d", url))
    assert "cret" not in refused("%40 and %25", load_site, file.parent)


def test_two_clients_cannot_speak_for_one_sensor(tmp_path):
    about = {"sensors": ["hall"], "key": "0" * 64, "serial": "1", "enrolled": datetime.now(UTC)}
    with pytest.raises(ValueError, match="'hall' is of both 'a' and 'b'"):
        Clients(clients={"a": about, "b": about})
    gone = {**about, "revoked": datetime.now(UTC)}
    assert list(Clients(clients={"a": gone, "b": about}).live) == ["b"]


# --- Services ------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_takes_the_units(tmp_path):
    folder = tmp_path / "50% of a $home"
    folder.mkdir()
    site = make_site(folder, workers=2)
    units = tmp_path / "units"
    units.mkdir()
    for unit in (site / "systemd").iterdir():
        name = unit.name.replace("@.", "@hall.")
        text = unit.read_text().replace("User=discreet", "User=daemon")  # one that exists here
        (units / name).write_text(text)
    names, key = sorted(path.name for path in units.iterdir()), load_site(site).key
    assert names == [
        f"discreet-{key}-broker.service",
        f"discreet-{key}-dashboard.service",
        f"discreet-{key}-fusion-2.service",
        f"discreet-{key}-fusion.service",
        "discreet-sensor@hall.service",
    ]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(units / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in checked.stderr.splitlines() if str(units) in line]
    assert complaints == []


@pytest.mark.parametrize(
    ("part", "hidden", "written"),
    [
        ("broker", ["fusion", "dashboard", "data"], ["broker"]),
        ("fusion", ["broker", "dashboard"], ["data"]),
        ("dashboard", ["broker", "fusion"], ["data", "dashboard"]),
    ],
)
def test_each_service_sees_its_own(tmp_path, part, hidden, written):
    site = make_site(tmp_path)
    name = f"systemd/discreet-{load_site(site).key}-{part}.service"
    lines = dict(
        line.split("=", 1) for line in (site / name).read_text().splitlines() if "=" in line
    )
    for folder in ("keys", *hidden):
        assert f'-"{site}/{folder}"' in lines["InaccessiblePaths"].split()
    assert lines["ReadWritePaths"].split() == [f'"{site}/{folder}"' for folder in written]
    assert lines["NoNewPrivileges"] == "yes" and lines["ProtectSystem"] == "strict"
    assert lines["LimitCORE"] == "0"
    services = yaml.safe_load((site / "compose.yaml").read_text())["services"]
    if part != "broker":  # which is given its own folder and no other
        assert {f"/site/{each}" for each in ("keys", *hidden)} < set(services[part]["tmpfs"])


def test_the_dashboard_is_shown_no_keys(tmp_path):
    site = make_site(tmp_path)
    enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    key = load_clients(site).clients["hall"].key
    assert key not in (site / "devices.json").read_text()
    assert list(load_devices(site).live) == ["hall"]
    (site / "devices.json").unlink()  # as in a site of an earlier version
    assert load_devices(site).clients["hall"].key != key


def test_a_sensor_may_reach_its_bus_and_nothing_else(tmp_path):
    unit = (make_site(tmp_path) / "systemd/discreet-sensor@.service").read_text().splitlines()
    assert "DeviceAllow=char-i2c rw" in unit and "DeviceAllow=char-gpiochip rw" in unit
    assert "DevicePolicy=closed" in unit and "PrivateDevices=yes" not in unit


def test_a_path_cannot_add_a_line_to_a_unit(tmp_path):
    folder = tmp_path / "a\nExecStartPre=evil"
    folder.mkdir()
    refused("cannot be printed", make_site, folder)
    assert not (folder / "site").exists()


def test_two_sites_of_one_name_are_apart(tmp_path):
    names = []
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        site = make_site(tmp_path / part)
        names.append({path.name for path in (site / "systemd").iterdir()})
    assert names[0] & names[1] == {"discreet-sensor@.service"}


def test_the_page_starts_every_worker(tmp_path):
    page = (make_site(tmp_path, workers=2) / "README.md").read_text()
    parts = re.search(r"enable --now (.*)", page)[1].split()
    assert [re.sub("_[0-9a-f]{8}", "", each) for each in parts] == [
        "discreet-home-broker",
        "discreet-home-fusion",
        "discreet-home-fusion-2",
        "discreet-home-dashboard",
    ]
    assert "discreet serve . --worker 1 &\ndiscreet serve . --worker 2 &\n" in page


def test_the_compose_file_runs_the_same_parts(tmp_path):
    site = make_site(tmp_path, workers=2)
    content = yaml.safe_load((site / "compose.yaml").read_text())
    services = content["services"]
    assert set(services) == {"broker", "fusion", "fusion-2", "dashboard"}
    assert services["fusion-2"]["command"] == ["serve", "/site", "--worker", "2"]
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["ulimits"] == {"core": 0}
        if name != "broker":
            assert "/site/keys" in service["tmpfs"]
    assert services["broker"]["volumes"] == ["./broker:/site/broker"]


def compose_program():
    """Docker Compose 2, as a program or as a part of docker; None if there is none."""
    for words in (["docker-compose"], ["docker", "compose"]):
        if shutil.which(words[0]) is not None:
            tried = subprocess.run([*words, "version", "--short"], capture_output=True, text=True)
            if tried.returncode == 0 and tried.stdout.startswith(("2", "v2")):
                return words
    return None


@pytest.mark.skipif(compose_program() is None, reason="Docker Compose 2 is not installed")
def test_compose_takes_the_file_and_never_builds_from_the_keys(tmp_path):
    site = make_site(tmp_path)
    environment = {**os.environ, "DISCREET_SOURCE": "/source"}
    command = [*compose_program(), "-f", str(site / "compose.yaml"), "config"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert services["fusion"]["build"]["context"] == "/source"
    del environment["DISCREET_SOURCE"]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert refused.returncode != 0 and "DISCREET_SOURCE" in refused.stderr


def test_a_broker_without_tls_is_on_this_machine():
    assert not BrokerEndpoint(host="127.0.0.1", port=1, tls=False).tls
    with pytest.raises(ValueError, match="for this machine only"):
        BrokerEndpoint(host="gateway.local", port=1, tls=False)
