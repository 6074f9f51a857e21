"""The last lines of `learn`: useful or not, private or not, what next."""

import json
import re

import numpy as np
import pytest
from support.commands import FACTS, rooms, same


@pytest.mark.slow
def test_a_mapping_that_answers_nothing_is_called_useless(command):
    rng = np.random.default_rng(1)
    rooms().assign(hall=rng.integers(2, size=80), door=rng.integers(2, size=80)).to_csv(
        "noise.csv", index=False
    )
    options = ["--exclude", "day", "--time-limit", "1s", "--out", "m"]
    _, printed, error = command("learn", "noise.csv", *FACTS, *options)
    assert "no better than guessing, as far as the rows show\n" in printed
    assert "answers 'fall' no better than guessing: its balanced accuracy is" in error


@pytest.mark.slow
def test_the_audit_that_is_proposed_has_the_limits_that_were_asked(command):
    options = ["--exclude", "day", "--time-limit", "1s", "--out", "m", "--epsilon", "0.5"]
    more = ["--max-advantage", "0.1234567", "--beyond-answer"]
    _, printed, _ = command("learn", "home.csv", *FACTS, *options, *more)
    wanted = "--max-advantage 0.1234567 --beyond-answer --epsilon 0.5 --html report.html\n"
    assert printed.endswith(f"next: discreet audit m home.csv {wanted}")
    _, printed, _ = command("learn", "home.csv", *FACTS, *options, "--json")
    assert json.loads(printed)["next"].endswith("audit m home.csv --epsilon 0.5 --html report.html")


@pytest.mark.slow
def test_a_private_fact_that_is_the_public_one_is_said_beside_what_is_useful(command):
    _, printed, said = command(*same("same.csv"), "--time-limit", "3s", "--max-advantage", "0.1")
    assert "'g' is the public fact 'h' under another name" in said
    assert "reveals it just as well: a limit on what is revealed is one on the answers." in said
    assert re.search(
        r"\nuseful: 'h' is .*; 'g' is the same fact, and so much of it is revealed\n", printed
    )
