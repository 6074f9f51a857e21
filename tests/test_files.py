import os
import signal
import stat
import subprocess
import sys

import pytest

from discreet.errors import InputError
from discreet.files import PRIVATE, create, write_folder, write_whole
from discreet_sensor.files import hold

HOLDER = """
import sys, time
from pathlib import Path
from discreet_sensor.files import hold
lock = hold(Path(sys.argv[1]), "held")
print("held", flush=True)
time.sleep(60)
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_text_and_bytes_replace_what_is_there(tmp_path):
    file = tmp_path / "a"
    for data, found in ((b"\0\xff", b"\0\xff"), ("é\n", "é\n".encode())):
        write_whole(file, data)
        assert file.read_bytes() == found
    assert os.listdir(tmp_path) == ["a"]


def test_a_mode_is_kept_or_given(tmp_path):
    file = tmp_path / "a"
    file.touch(0o640)
    write_whole(file, "x")
    assert mode_of(file) == 0o640
    write_whole(file, "x", PRIVATE)
    assert mode_of(file) == 0o600


def test_a_link_is_followed_unless_a_mode_is_given(tmp_path):
    aim, link = tmp_path / "aim", tmp_path / "link"
    aim.write_text("old")
    link.symlink_to(aim)
    write_whole(link, "new")
    assert link.is_symlink() and aim.read_text() == "new"
    write_whole(link, "secret", PRIVATE)
    assert not link.is_symlink() and aim.read_text() == "new"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("mode", [None, PRIVATE])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, mode):
    file = tmp_path / "a"
    file.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(InputError, match=r"a: cannot be written \(No space left on device\)"):
        write_whole(file, "new", mode)
    assert os.listdir(tmp_path) == ["a"] and file.read_text() == "old"


def test_a_new_file_takes_no_place_and_is_gone_if_it_was_not_finished(tmp_path):
    taken, new = tmp_path / "taken", tmp_path / "new"
    taken.write_text("old")
    with pytest.raises(FileExistsError), create(taken, PRIVATE):
        pass
    with pytest.raises(KeyboardInterrupt), create(new, PRIVATE) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["taken"] and taken.read_text() == "old"


@pytest.mark.parametrize(("mode", "inside"), [(PRIVATE, 0o700), (0o640, 0o750)])
def test_folders_can_be_entered_by_whoever_may_read_their_files(tmp_path, mode, inside):
    write_folder(tmp_path / "f", {"a/b/c": b"1", "d/": b""}, mode=mode)
    found = {path.relative_to(tmp_path): path for path in (tmp_path / "f").rglob("*")}
    assert sorted(map(str, found)) == ["f/a", "f/a/b", "f/a/b/c", "f/d"]
    assert all(mode_of(each) == (mode if each.is_file() else inside) for each in found.values())


def test_a_lock_ends_with_the_process_that_held_it(tmp_path):
    file = tmp_path / "lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="taken"):
            hold(file, "taken")
        child.send_signal(signal.SIGKILL)
    lock = hold(file, "taken")
    with pytest.raises(InputError, match="taken"):
        hold(file, "taken")
    lock.release()
    hold(file, "taken").release()
    assert mode_of(file) == 0o600
