"""Every block of the manual, run: guides one page after the other, real data where it is."""

import os
import re
import shlex

import pytest
from support.ports import free_port
from support.sites import needs_mosquitto
from typer.main import get_command

from discreet.cli import COMMANDS, command_line
from discreet.network.broker import find_mosquitto
from research.manual import DOCS, GUIDES, ON_REAL_DATA, run_script, script_of

EVERY = get_command(command_line([])).commands

README = DOCS.parent / "README.md"
GALLERY = [page for page in sorted(DOCS.glob("gallery/*.md")) if page not in ON_REAL_DATA]
PORTS = ("8883", "9464", "8080", "8786")  # of a site and a scheduler, as the pages have them
PAGES = sorted({README, *DOCS.glob("*.md"), *DOCS.glob("*/*.md")} - {*DOCS.glob("decisions/*")})


def as_ordinary_user(folder):
    """Put a Mosquitto into the folder that stays the user it is, as for those who are not root."""
    program = folder / "mosquitto"
    program.write_text(
        f'#!/bin/sh\necho "user $(id -un)" >> mosquitto.conf\nexec {find_mosquitto()} "$@"\n'
    )
    program.chmod(0o700)


def follow(page, folder):
    script = script_of(page)
    for port in PORTS:
        script = re.sub(rf"(port |127\.0\.0\.1:){port}\b", rf"\g<1>{free_port()}", script)
    code, printed = run_script(script, folder)
    assert code == 0 and "Traceback" not in printed, f"{page.name}: {printed}"


def in_words(picture):
    """Return what stands in a picture but for its figures, which differ between processors.

    Whether its rows were audited before, which is a condition, differs between machines.
    """
    words = re.findall(r">([^<>]+)</text>", picture.read_text().replace(" on condition", ""))
    return [re.sub(r"[\d.]+", "#", each) for each in words]


@pytest.mark.slow
@needs_mosquitto
@pytest.mark.timeout(3600)
def test_the_pages_do_what_they_say(tmp_path):
    as_ordinary_user(tmp_path)
    for page in [*GUIDES, *GALLERY, README]:
        follow(page, tmp_path)
    for page in GALLERY:
        pictures = re.findall(r"\]\((\w+\.svg)\)", page.read_text())
        assert all((tmp_path / each).is_file() and (page.parent / each).is_file()
                   for each in pictures)  # fmt: skip
    assert in_words(tmp_path / "demo.svg") == in_words(DOCS / "demo.svg")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("DISCREET_DATA" not in os.environ, reason="DISCREET_DATA names no folder")
@pytest.mark.parametrize("page", ON_REAL_DATA, ids=lambda page: page.stem)
def test_the_pages_on_real_data_do_what_they_say(page, tmp_path):
    follow(page, tmp_path)
    assert (tmp_path / f"{page.stem}.svg").is_file()


# --- Commands that pages name ----------------------------------------------------------------


def named_commands(page):
    """Return what a page has after each ``discreet``, in blocks and in its lines, in words."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    inline = re.findall(r"`(discreet [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for line in [*"\n".join(blocks).splitlines(), *(" ".join(each.split()) for each in inline)]:
        words = [*shlex.shlex(line, posix=True, punctuation_chars=True)]
        for k, word in enumerate(words):
            if word == "discreet" and words[k + 1 : k + 2]:
                yield words[k + 1], _until_the_end(words[k + 2 :])


def _until_the_end(words):
    ends = (k for k, word in enumerate(words) if re.fullmatch(r"[();<>|&]+", word))
    return words[: next(ends, len(words))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_commands_and_options_that_there_are(page):
    for name, rest in named_commands(page):
        assert name in COMMANDS or name.startswith("-"), f"{page.name}: discreet {name} {rest}"
        if name in COMMANDS:
            command = EVERY[name]
            known = {each for param in command.params for each in (*param.opts, "--help")}
            for word in re.findall(r"^--[\w-]+", "\n".join(rest), re.M):
                assert word in known, f"{page.name}: discreet {name} has no {word}"


def test_pages_name_many_commands():
    assert sum(1 for page in PAGES for _ in named_commands(page)) > 100
