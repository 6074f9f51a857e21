"""Two checkouts beside each other: each runs its own code, and what is worse is told."""

import sys

import pytest

from research.benchmarks.network import compare

PRINTED = """
print("│ resident memory by quarter, MB: 148.0, 148.2, 148.2, {memory} │ +0.0%  │ <= +5%  │ PASS │")
print("│ from sending to acknowledgement by quarter, ms: 12, 9, 13, 17 │ +100%  │ <= +50% │ PASS │")
print("│ sent 240, acknowledged 240, stored 240                        │ 0 open │ 0       │ PASS │")
"""


def make_checkout(folder, memory):
    network = folder / "research" / "benchmarks" / "network"
    network.mkdir(parents=True)
    (network / "soak.py").write_text(PRINTED.format(memory=memory))
    (folder / "src" / "discreet").mkdir(parents=True)
    (folder / "src" / "discreet" / "__init__.py").touch()
    return folder


@pytest.mark.parametrize(
    ("memory", "code", "ratio"), [(141.0, 0, "0.95"), (148.6, 0, "1.00"), (163.3, 1, "1.10")]
)
def test_what_is_worse_than_every_turn_of_the_other_is_told(
    tmp_path, monkeypatch, capsys, memory, code, ratio
):
    now, before = make_checkout(tmp_path / "a", memory), make_checkout(tmp_path / "b", 148.4)
    monkeypatch.setattr(compare, "HERE", now)
    arguments = ["compare", "--against", str(before), "--only", "soak", "--times", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert compare.main() == code
    lines = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    memory_line, late, lost = lines[-3:]
    assert ratio in memory_line and ("WORSE" in memory_line) == bool(code)
    assert "1.00" in late and "no worse" in late and "no worse" in lost


def test_a_folder_without_the_code_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="is it a checkout of discreet"):
        compare.check(tmp_path, sys.executable)


def test_output_without_a_figure_ends_it():
    with pytest.raises(SystemExit, match="Traceback"):
        compare.FIGURES["soak"][0].read("Traceback (most recent call last)")
