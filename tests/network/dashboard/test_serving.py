"""Where the dashboard may listen, what it says, and how it starts and ends for real."""

import http.client
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from support import commands
from support.dashboards import PASSWORD, SITES

from discreet.cli import BAD_INPUT
from discreet.errors import InputError
from discreet.network.dashboard import serving
from discreet.network.dashboard.guards import is_wildcard, names_for
from discreet.network.dashboard.serving import (
    DashboardTask,
    StoppableServer,
    announce,
    make_dashboard,
    serve,
    users_of,
)
from discreet.network.site.settings import locked
from discreet_sensor.enrolment import is_loopback

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def folder(tmp_path):
    maker = SITES["new"](tmp_path / "site")
    maker.store.close()
    return maker.folder


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process, with a text on standard input."""

    def command(*arguments, text=None):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text or ""))
        return commands.run(monkeypatch, capsys, "dashboard", *arguments)

    return command


# --- Where -----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_beyond_this_machine_needs_consent_and_a_user(folder, host):
    with pytest.raises(InputError, match="--remote"):
        make_dashboard(DashboardTask(folder, host=host))
    with pytest.raises(InputError, match="needs a user"):
        make_dashboard(DashboardTask(folder, host=host, remote=True))
    users_of(folder).add("ann", PASSWORD)
    assert make_dashboard(DashboardTask(folder, host=host, remote=True))[2] == (host, 8080)


@pytest.mark.slow
def test_beyond_this_machine_without_tls_is_warned_of(folder, capsys, tmp_path):
    users_of(folder).add("ann", PASSWORD)
    for host, key, warned in (
        ("0.0.0.0", None, True),
        ("0.0.0.0", tmp_path, False),
        ("::1", None, False),
    ):
        task = DashboardTask(folder, host=host, remote=True, certificate=key, key=key)
        _, logins, _ = make_dashboard(task)
        lines = announce(task, logins, host, 8080)
        assert ("in the clear" in capsys.readouterr().err) is warned
        assert lines[0].startswith("dashboard: http") and len(lines) == 2


def test_loopback_is_told_from_the_rest():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "")))
    assert is_wildcard("0.0.0.0") and is_wildcard("::") and not is_wildcard("example.org")
    assert "0.0.0.0" not in names_for("0.0.0.0", ["box.lan"])
    assert {"10.0.0.1", "box.lan", "localhost"} <= set(names_for("10.0.0.1", ["box.lan"]))


def test_without_a_user_a_link_is_printed(folder):
    task = DashboardTask(folder)
    _, logins, (host, port) = make_dashboard(task)
    lines = announce(task, logins, host, port)
    assert any(f"/login?link={logins.link}" in line for line in lines)
    assert any("--add-user" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"certificate": "c"}, "go together"),
        ({"certificate": "none.crt", "key": "none.key"}, "cannot be used"),
    ],
)
def test_half_a_certificate_is_refused(folder, tmp_path, options, words):
    given = {name: tmp_path / value for name, value in options.items()}
    with pytest.raises(InputError, match=words):
        serve(DashboardTask(folder, port=0, **given))


def test_a_taken_port_is_one_message(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}.*--port"):
            serve(DashboardTask(folder, port=port))


def test_what_is_no_site_is_one_message(tmp_path):
    with pytest.raises(InputError, match=r"site\.json"):
        make_dashboard(DashboardTask(tmp_path))


# --- The command -----------------------------------------------------------------------------


@pytest.mark.slow
def test_users_are_added_and_removed_from_the_command_line(folder, run):
    assert run(folder, "--add-user", "ann", text=PASSWORD + "\n") == (0, "added the user ann\n", "")
    assert users_of(folder).check("ann", PASSWORD)
    assert "new password" in run(folder, "--add-user", "ann", text=PASSWORD + "!\n")[1]
    assert run(folder, "--remove-user", "ann")[0] == 0
    assert users_of(folder).names() == []


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (["--add-user", "ann"], "short\n", "got 5"),
        (["--add-user", "ann"], "", "got 0"),
        (["--add-user", "a b"], PASSWORD, "user's name"),
        (["--remove-user", "bob"], None, "no user 'bob'"),
        (["--add-user", "ann", "--remove-user", "ann"], None, "one or the other"),
        (["--host", "0.0.0.0"], None, "--remote"),
    ],
)
def test_mistakes_are_one_message(folder, run, arguments, text, words):
    code, out, err = run(folder, *arguments, text=text)
    assert code == BAD_INPUT and out == ""
    assert words in err and err.count("\n") == 1


def test_two_commands_do_not_change_the_users_at_once(folder, run):
    with locked(folder / "dashboard"):
        code, _, err = run(folder, "--add-user", "ann", text=PASSWORD)
    assert code == BAD_INPUT and "another command" in err


@contextmanager
def running(folder, monkeypatch, **options):
    """A server in a thread; yields its port."""
    begun = threading.Event()

    class Once(StoppableServer):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            servers.append(self)
            begun.set()

    servers = []
    monkeypatch.setattr(serving, "StoppableServer", Once)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    task = DashboardTask(folder, port=port, **options)
    thread = threading.Thread(target=serve, args=[task], daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield port
    finally:
        servers[0].should_exit = True
        thread.join(60)


@pytest.mark.slow
def test_half_requests_do_not_occupy_the_server(folder, monkeypatch):
    """They are closed in time, and what is whole is answered as ever."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 1.0)
    with running(folder, monkeypatch) as port:
        half = socket.create_connection(("127.0.0.1", port), 60)
        half.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n")
        second = socket.create_connection(("127.0.0.1", port), 60)
        second.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\nGET /")
        assert half.recv(1) == b""
        answer = b""
        while more := second.recv(65536):
            answer += more
        assert answer.startswith(b"HTTP/1.1 200")
        half.close()
        second.close()


@pytest.mark.slow
def test_half_requests_do_not_take_the_last_place(folder, monkeypatch):
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 12)
    monkeypatch.setattr(serving, "_MOST_WAITING", 6)
    with running(folder, monkeypatch) as port, ExitStack() as stack:
        half = []
        for _ in range(30):
            half.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)))
            half[-1].sendall(b"GET /login HTTP/1.1\r\n")
        with suppress(ConnectionResetError):  # the oldest makes room
            assert half[0].recv(1) == b""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(connection.close)
        connection.request("GET", "/login")
        assert connection.getresponse().status == 200


@pytest.mark.slow
def test_behind_a_proxy_cookies_are_kept_to_tls_and_users_are_told_apart(folder, monkeypatch):
    seen = []
    real = serving.Logins.wait
    monkeypatch.setattr(
        serving.Logins, "wait", lambda self, *key: seen.append(key) or real(self, *key)
    )
    with running(folder, monkeypatch, proxy="127.0.0.1") as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for address in ("192.0.2.7", "192.0.2.8"):
            named = {"x-forwarded-for": f"10.9.9.9, {address}", "x-forwarded-proto": "https"}
            connection.request("GET", "/login", headers=named)
            answer = connection.getresponse()
            cookie = answer.getheader("set-cookie")
            assert cookie.startswith("__Host-") and "secure" in cookie
            token = re.search(r'name="token" value="([^"]+)"', answer.read().decode())[1]
            named |= {"cookie": cookie.partition(";")[0], "content-type": FORM}
            connection.request("POST", "/login", f"token={token}&name=ann&password=x", named)
            connection.getresponse().read()
        connection.close()
    assert [address for address, _ in seen] == ["192.0.2.7", "192.0.2.8"]


def test_a_proxy_is_named_by_its_address(folder):
    with pytest.raises(InputError, match="--behind-proxy"):
        make_dashboard(DashboardTask(folder, proxy="*"))


def test_a_folder_that_is_no_site_gets_no_users(tmp_path, run):
    code, _, _ = run(tmp_path, "--add-user", "ann", text=PASSWORD)
    assert code == BAD_INPUT and list(tmp_path.iterdir()) == []


def test_at_a_terminal_the_password_is_asked_for_twice(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    typed = [PASSWORD, PASSWORD, PASSWORD, "another"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: typed.pop(0))
    assert commands.run(monkeypatch, capsys, "dashboard", folder, "--add-user", "ann")[0] == 0
    code, _, err = commands.run(monkeypatch, capsys, "dashboard", folder, "--add-user", "bob")
    assert code == BAD_INPUT and "differ" in err and users_of(folder).names() == ["ann"]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_it_starts_answers_and_ends(folder, sign):
    """Also with a page open: its stream must not hold up the end."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "discreet", "dashboard", str(folder), "--port", "0"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        server.stdout.readline()
        link = re.search(r"link=(\S+)", server.stdout.readline())[1]
        cookie = _log_in(port, link)
        stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stream.request("GET", "/events", headers={"cookie": cookie})
        assert stream.getresponse().readline() == b"retry: 3000\n"
        server.send_signal(sign)
        _, complaints = server.communicate(timeout=60)
        assert server.returncode == 0
        assert complaints == ""
        stream.close()
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()


def _log_in(port, link):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/login?link={link}")
    answer = connection.getresponse()
    token = re.search(r'name="token" value="([^"]+)"', answer.read().decode())[1]
    form = answer.getheader("set-cookie").partition(";")[0]
    headers = {"cookie": form, "content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", f"token={token}&link={link}", headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 303
    return answer.getheader("set-cookie").partition(";")[0]
