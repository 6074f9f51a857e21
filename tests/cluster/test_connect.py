import logging
import signal
import socket
import ssl

import pytest
from distributed import LocalCluster
from support.clusters import started

import discreet
from discreet import cluster
from discreet.cluster import check_address, check_workers, connected, living_workers
from discreet.errors import ClusterError, InputError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "where,count",
    [
        ("local:2", 2),
        ("tcp://10.0.0.5:8786", None),
        ("tls://scheduler.example:8786", None),
        ("tcp://[::1]:8786", None),
        ("scheduler:8786", None),
    ],
)
def test_addresses_and_numbers_of_workers_are_told_apart(where, count):
    assert check_address(where) == count


@pytest.mark.parametrize(
    "where",
    [
        "",
        "local:",
        "local:0",
        "local:257",
        "local:-1",
        "local:²",
        "local:2.5",
        "here",
        "tcp://a",
        "tcp://a:99999",
        "tcp://a b:1",
        "inproc://1/2/3",
        "http://a:1",
        "a:1/../x",
        "a:1\n",
        "$(x):1",
    ],
)
def test_anything_else_is_refused(where):
    with pytest.raises(InputError, match="--dask"):
        check_address(where)


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install "discreet\[dask\]"'):
        check_address("local:2")


def test_nobody_at_the_address_is_one_message(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # held, and nobody listens
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ClusterError, match="no Dask scheduler answers"), connected(address):
            pass


def test_a_scheduler_without_workers_is_refused(monkeypatch):
    def hurried(client):  # the scheduler gets its time to answer, the workers need none
        monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1)
        check_workers(client)

    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 120)
    monkeypatch.setattr(cluster, "check_workers", hurried)
    with (
        LocalCluster(
            n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        ) as empty,
        pytest.raises(ClusterError, match="has no workers"),
        connected(empty.scheduler_address),
    ):
        pass


def test_workers_are_started_here_and_ended_again():
    with connected("local:2") as client:
        assert len(living_workers(client)) == 2
        address = client.scheduler.address
        workers = living_workers(client)
        assert all(each.startswith("tls://") for each in (address, *workers))
        for each in (address, *workers):
            _knock_without_certificate(*_place(each))
    assert client.status == "closed"
    host, port = _place(address)
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port))) != 0


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no masks")
def test_workers_leave_ctrl_c_and_closed_terminals_to_the_command():
    with connected("local:2") as client:
        blocked = client.run(signal.pthread_sigmask, signal.SIG_BLOCK, [])
    assert len(blocked) == 2
    assert all({signal.SIGINT, signal.SIGHUP} <= each for each in blocked.values())
    assert not {signal.SIGINT, signal.SIGHUP} & signal.pthread_sigmask(signal.SIG_BLOCK, [])


def _place(address):
    host, port = address.removeprefix("tls://").split(":")
    return host, int(port)


def _knock_without_certificate(host, port):
    """Another user of the machine can reach the port, and gets no further."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), 60) as line,
        pytest.raises(OSError),
        context.wrap_socket(line) as tls,
    ):
        tls.sendall(b"pickle")
        if not tls.recv(1):
            raise ConnectionResetError


def test_workers_are_known_while_dask_looks_after_itself():
    with started(2) as client:
        looks = client._periodic_callbacks["scheduler-info"]
        looks.stop()
        looks.callback_time = 1.0  # milliseconds instead of seconds
        client.loop.add_callback(looks.start)
        assert {len(living_workers(client)) for _ in range(300)} == {2}


def test_another_version_on_the_workers_is_refused(monkeypatch):
    with started(1) as client:
        check_workers(client)
        monkeypatch.setattr(discreet, "__version__", "9.9.9")
        with pytest.raises(ClusterError, match=r"here it is 9\.9\.9"):
            check_workers(client)
