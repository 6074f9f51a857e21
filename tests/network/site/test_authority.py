"""Certificates and revocation lists that are made while the clock is wrong."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.sites import broker_of, fusion_visitor, make_site, needs_mosquitto, visitor_of

from discreet.network import doctor
from discreet.network.site import authority as authority_module
from discreet.network.site import joining, making, removing_devices
from discreet.network.site.authority import Authority, list_number, load_authority, make_authority
from discreet.network.site.joining import EnrolmentRequest, enroll, enroll_observer
from discreet.network.site.making import renew_site
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import load_site
from discreet_sensor.enrolment import load_enrolment

AHEAD = timedelta(days=3)


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock of all that writes a site."""

    def set_to(shift):
        def now():
            return datetime.now(UTC).replace(microsecond=0) + shift

        for module in (authority_module, joining, making, removing_devices):
            monkeypatch.setattr(module, "now", now)

    return set_to


def list_of(site, part="broker"):
    return x509.load_pem_x509_crl((site / part / "ca.crl").read_bytes())


def certificate(text):
    return x509.load_pem_x509_certificate(text.encode() if isinstance(text, str) else text)


def enrolled(site, name, **asked):
    file = site.parent / f"{name}-{len(list(site.parent.iterdir()))}.enrol"
    enroll(site, EnrolmentRequest(name, **asked), file)
    return load_enrolment(file)


def judged(site):
    found = {each.subject: each for each in doctor.certificates(site, load_site(site))}
    return {subject: each for subject, each in found.items() if each.level != "ok"}


def date_by_the_clock(site, shift, monkeypatch):
    """Have a site's list dated as by a clock that is ahead."""
    with monkeypatch.context() as patched:
        date = datetime.now(UTC).replace(microsecond=0) + shift
        patched.setattr(Authority, "_list_date", lambda *_: date)
        enroll_observer(site, "reader", site.parent / "reader")


def handshake(server, client):
    """Whether a server lets a client in."""
    to_server, from_server, to_client, from_client = (ssl.MemoryBIO() for _ in range(4))
    ours = server.wrap_bio(to_server, from_server, server_side=True)
    theirs = client.wrap_bio(to_client, from_client, server_hostname="localhost")
    for _ in range(6):
        for each in (theirs, ours):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
            to_server.write(from_client.read())
            to_client.write(from_server.read())
    return True


def test_of_lists_that_a_broker_has_loaded_the_last_one_counts(tmp_path):
    authority = Authority(*make_authority("home"))

    def stored(name, data):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    ca = stored("ca", authority.certificate.public_bytes(Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    issued = {server: authority.issue_server("broker", ["localhost"])}
    issued[client] = authority.issue_client("hall")
    for context, made in issued.items():
        context.load_verify_locations(ca)
        context.load_cert_chain(stored("crt", made.certificate), stored("key", made.key))
    server.verify_mode, server.verify_flags = ssl.CERT_REQUIRED, ssl.VERIFY_CRL_CHECK_LEAF
    serial, before = issued[client].serial, None
    for serials in ([], [("1", authority_module.now())], [(serial, authority_module.now())]):
        listed = authority.revocation_list(serials, before)
        before = x509.load_pem_x509_crl(listed)
        server.load_verify_locations(stored("list", listed))  # beside those that are loaded
        assert handshake(server, client) == (serial not in dict(serials))


def test_what_is_made_while_the_clock_is_ahead_counts_at_once(site, clock):
    first = list_of(site)
    clock(AHEAD)
    hall, present = enrolled(site, "hall"), datetime.now(UTC)
    found = certificate(hall.certificate)
    assert found.not_valid_before_utc == load_authority(site).certificate.not_valid_before_utc
    ends = present + AHEAD + timedelta(days=730)  # by the clock, as it was
    assert abs(found.not_valid_after_utc - ends) < timedelta(minutes=5)
    revoke(site, "hall")
    ahead = list_of(site)
    assert judged(site) == {}
    clock(timedelta(0))
    enrolled(site, "door")
    lists = [first, ahead, list_of(site)]
    dates = [each.last_update_utc for each in lists]
    assert dates == sorted(set(dates)) and dates[-1] < present - timedelta(hours=1)
    numbers = [list_number(each) for each in lists]
    assert numbers == sorted(set(numbers))
    assert list_number(list_of(site, "keys")) == numbers[-1]


def test_a_site_that_is_renewed_while_the_clock_is_ahead_goes_on(site, clock):
    begin = load_authority(site).certificate.not_valid_before_utc
    clock(AHEAD)
    renew_site(site)
    renewed = load_authority(site).certificate
    assert renewed.not_valid_before_utc == begin
    assert renewed.not_valid_after_utc > datetime.now(UTC) + timedelta(days=3653)
    assert judged(site) == {}


def test_a_clock_that_is_far_behind_does_not_date_the_list_back(site, clock):
    before = list_of(site)
    clock(-timedelta(days=9000))
    enrolled(site, "hall")
    assert list_of(site).last_update_utc > before.last_update_utc
    assert list_number(list_of(site)) > list_number(before)


@pytest.mark.parametrize("repair", [renew_site, lambda site: enrolled(site, "hall")])
def test_a_list_of_the_future_is_found_and_any_change_repairs_it(site, repair, monkeypatch):
    date_by_the_clock(site, AHEAD, monkeypatch)
    future, found = list_of(site), judged(site)
    assert list(found) == ["revocation list"]
    assert found["revocation list"].level == "failure"
    assert "in the future" in found["revocation list"].words
    assert "clock right" in found["revocation list"].fix
    assert "discreet renew-site" in found["revocation list"].fix
    repair(site)
    assert judged(site) == {} and list_number(list_of(site)) > list_number(future)


def test_a_site_that_was_made_while_the_clock_was_ahead_is_renewed(tmp_path, clock):
    clock(AHEAD)
    site = make_site(tmp_path)
    enrolled(site, "hall")
    clock(timedelta(0))
    found = judged(site)
    assert {each.level for each in found.values()} == {"failure"} and len(found) == 4
    assert all("discreet renew-site" in each.fix for each in found.values())
    renew_site(site)
    assert judged(site) == {}
    (found,) = doctor.devices(site)
    assert found.level == "failure" and "hall not good before" in found.words
    assert "discreet enroll hall --renew" in found.fix
    enrolled(site, "hall", renew=True)
    (found,) = doctor.devices(site)
    assert found.level == "ok"


def test_a_list_that_is_damaged_or_missing_is_made_anew(site):
    (site / "broker/ca.crl").write_text("nothing")
    (site / "keys/ca.crl").unlink()
    enrolled(site, "hall")
    assert judged(site) == {}


@needs_mosquitto
@pytest.mark.slow
def test_a_broker_lets_in_who_was_enrolled_while_the_clock_was_ahead(site, clock, tmp_path):
    port = load_site(site).broker.port
    clock(AHEAD)
    hall, door = enrolled(site, "hall"), enrolled(site, "door")
    with broker_of(site):
        for visitor in (fusion_visitor(site), visitor_of(site, hall, tmp_path)):
            assert visitor.connect(port)
            visitor.leave()
        assert revoke(site, "hall").outcome == "out"
        clock(timedelta(0))  # lists that follow are younger all the same
        assert revoke(site, "door").outcome == "out"
        assert not visitor_of(site, door, tmp_path).connect(port)
        fusion = fusion_visitor(site)
        assert fusion.connect(port)
        fusion.leave()


@needs_mosquitto
@pytest.mark.slow
def test_a_broker_that_refuses_all_for_a_list_of_the_future_is_repaired(site, monkeypatch):
    port = load_site(site).broker.port
    date_by_the_clock(site, AHEAD, monkeypatch)
    with broker_of(site):
        assert not fusion_visitor(site).connect(port)
    renew_site(site)
    with broker_of(site):
        fusion = fusion_visitor(site)
        assert fusion.connect(port)
        fusion.leave()
