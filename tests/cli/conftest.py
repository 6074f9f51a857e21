"""What tests of several commands share."""

import pytest
from support.commands import rooms, run


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs a command in a folder that has the table of a home."""
    monkeypatch.chdir(tmp_path)
    rooms().to_csv("home.csv", index=False)
    return lambda *arguments: run(monkeypatch, capsys, *arguments)
