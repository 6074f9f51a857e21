"""Finding and downloading, against a server on loopback; nothing here goes further."""

import gc
import gzip
import hashlib
import io
import socket
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.helpers import refused

from research.paper import files
from research.paper.files import Source, fetch, find_file, read_text

CONTENT = b"39, State-gov\n" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def collected():
    """Collect the sockets that pooch leaves open after an error, before another test does."""
    yield
    gc.collect()


def zipped(name="inner/data.txt", content=CONTENT):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


class Pages(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
            return
        body, promised = self.server.pages.get(self.path, (b"", None))
        self.send_response(200 if promised is not None else 404)
        self.send_header("Content-Length", str(promised or 0))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as served:
        served.asked = []
        archive = zipped()
        served.pages = {
            "/data": (CONTENT, len(CONTENT)),
            "/other": (CONTENT[::-1], len(CONTENT)),
            "/cut": (CONTENT[:5000], len(CONTENT)),
            "/long": (CONTENT + b"more", len(CONTENT) + 4),
            "/zip": (archive, len(archive)),
            "/cut-zip": (archive[:-30], len(archive) - 30),
        }
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def source(server, page, member=None):
    return Source(f"http://127.0.0.1:{server.server_port}{page}", len(CONTENT), DIGEST, member)


# -- downloading ---------------------------------------------------------------------


def test_a_file_with_the_right_checksum_is_kept(server, tmp_path):
    file = fetch("data.txt", source(server, "/data"), tmp_path / "new")
    assert file == tmp_path / "new" / "data.txt"
    assert file.read_bytes() == CONTENT
    assert [each.name for each in file.parent.iterdir()] == ["data.txt"]


def test_a_member_of_an_archive_is_unpacked(server, tmp_path):
    file = fetch("data.txt", source(server, "/zip", "inner/data.txt"), tmp_path)
    assert file.read_bytes() == CONTENT
    assert [each.name for each in tmp_path.iterdir()] == ["data.txt"]


@pytest.mark.parametrize(
    ("page", "member", "message"),
    [
        ("/other", None, "SHA256 hash .* does not match"),
        ("/cut", None, "IncompleteRead"),
        ("/long", None, "14004 bytes, not the 14000"),
        ("/nowhere", None, "Not Found"),
        ("/zip", "inner/absent.txt", "no item named"),
        ("/zip", None, "bytes, not the 14000"),
        ("/cut-zip", "inner/data.txt", "not a zip file"),
        ("/data", "inner/data.txt", "not a zip file"),
        ("/to/ftp://127.0.0.1/data", None, "No connection adapters"),
    ],
)
def test_anything_else_is_refused_and_leaves_nothing_behind(
    server, tmp_path, page, member, message
):
    said = refused(message, fetch, "data.txt", source(server, page, member), tmp_path)
    assert "by hand" in said
    assert list(tmp_path.iterdir()) == []


def test_a_member_that_unpacks_to_more_than_it_should_is_refused(server, tmp_path):
    bomb = zipped(content=bytes(10_000_000))
    server.pages["/bomb"] = (bomb, len(bomb))
    wanted = source(server, "/bomb", "inner/data.txt")
    refused("10000000 bytes, not the 14000", fetch, "data.txt", wanted, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_older_copy_survives_a_failed_download(server, tmp_path):
    (tmp_path / "data.txt").write_text("older")
    refused("SHA256", fetch, "data.txt", source(server, "/other"), tmp_path)
    assert (tmp_path / "data.txt").read_text() == "older"


def test_a_server_that_is_not_there_is_told(server, tmp_path):
    gone = source(server, "/data")
    server.shutdown()
    server.server_close()
    refused("could not be had", fetch, "data.txt", gone, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(files, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        wanted = Source(f"http://127.0.0.1:{silent.getsockname()[1]}/", 1, DIGEST)
        refused("timed out", fetch, "data.txt", wanted, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", files.SOURCES)
def test_what_is_published_is_asked_for_with_encryption_and_a_checksum(name):
    known = files.SOURCES[name]
    assert known.url.startswith("https://")
    assert len(bytes.fromhex(known.sha256)) == 32
    assert known.size > 0


# -- finding -------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch, server):
    """A made-up file that can be downloaded, an empty cache and a data folder."""
    monkeypatch.setitem(files.SOURCES, "made-up.txt", source(server, "/data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path / "data"))
    return tmp_path


def test_what_is_given_goes_first(places):
    (places / "data" / "made-up.txt").write_text("named")
    mine = places / "mine.txt"
    mine.write_text("mine")
    assert find_file("made-up.txt", mine) == mine
    folder = places / "folder"
    folder.mkdir()
    (folder / "made-up.txt.gz").write_bytes(gzip.compress(b"zipped"))
    assert find_file("made-up.txt", folder) == folder / "made-up.txt.gz"
    refused("no such file or folder", find_file, "made-up.txt", places / "absent")
    refused("neither made-up.txt nor", find_file, "made-up.txt", places / "data" / "..")


def test_the_named_folder_goes_before_the_download(places, server):
    file = places / "data" / "made-up.txt"
    file.write_text("named")
    assert find_file("made-up.txt") == file
    assert server.asked == []


def test_the_download_comes_last_and_once(places, server):
    refused("not found", find_file, "made-up.txt", download=False)
    first, second = find_file("made-up.txt"), find_file("made-up.txt")
    assert first == second == places / "cache" / "discreet" / "made-up.txt"
    assert server.asked == ["/data"]


def test_a_cached_file_that_was_changed_is_had_anew(places, server):
    file = find_file("made-up.txt")
    file.write_bytes(b"changed")
    assert find_file("made-up.txt").read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_file_that_nobody_publishes_is_asked_for(places):
    refused("name that folder in DISCREET_DATA", find_file, "nowhere.csv")


def test_a_named_folder_that_is_none_is_told(places, monkeypatch):
    monkeypatch.setenv("DISCREET_DATA", str(places / "absent"))
    refused("which is no folder", find_file, "made-up.txt")


# -- reading -------------------------------------------------------------------------


def test_text_is_read_plain_and_zipped(tmp_path):
    (tmp_path / "a.txt").write_bytes("é\n".encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("é\n".encode()))
    assert read_text(tmp_path / "a.txt", 10) == read_text(tmp_path / "a.txt.gz", 10) == "é\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("a.gz", gzip.compress(CONTENT)[:-10], "damaged gzip", id="cut"),
        pytest.param("a.gz", gzip.compress(CONTENT)[:30] + bytes(50), "damaged gzip", id="zeroed"),
        pytest.param("a.gz", b"plain", "damaged gzip", id="plain"),
        pytest.param("a.gz", gzip.compress(bytes(10**6)), "more than 20000 bytes", id="endless"),
        pytest.param("a.txt", b"\xff\xfe", "not UTF-8", id="latin"),
    ],
)
def test_what_is_damaged_or_endless_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    refused(message, read_text, tmp_path / name, 20_000)


def test_what_cannot_be_opened_is_told(tmp_path):
    refused("cannot be read", read_text, tmp_path / "absent", 10)
