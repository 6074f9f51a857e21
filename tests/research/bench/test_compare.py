import pytest
from support.benches import contest, run_of

from discreet.errors import InputError
from research.bench.report import change_lines, compare


def changes(old, new):
    (change,) = compare(run_of(old), run_of(new))
    return change


@pytest.mark.parametrize(
    "ours,verdict",
    [((1.0, 1.1, 0.9), ""), ((2.0, 2.2, 1.8), "slower"), ((0.5, 0.55, 0.45), "faster")],
)
def test_changes_beyond_the_spread_are_marked(ours, verdict):
    assert changes(contest(), contest(ours=ours)).verdict == verdict


def test_a_slower_machine_is_no_slower_version():
    slow = contest(ours=(2.0, 2.2, 1.8), peer=(4.0, 4.4, 3.6))
    change = changes(contest(), slow)
    assert (change.old, change.new) == (1.0, 2.0)
    assert change.relative == pytest.approx(1.0)
    assert change.verdict == ""


def test_a_change_within_the_spread_is_not_marked():
    wild = contest(ours=(1.0, 2.0, 3.0), peer=(1.0, 1.0, 1.0))
    change = changes(wild, contest(ours=(1.2, 2.4, 3.6), peer=(1.0, 1.0, 1.0)))
    assert change.relative == pytest.approx(1.2)
    assert change.spread > 0.2
    assert change.verdict == ""


@pytest.mark.parametrize("other", [{"size": "large"}, {"name": "fit"}])
def test_what_was_measured_differently_is_not_compared(other):
    with pytest.raises(InputError, match="no benchmark of the same size in common"):
        compare(run_of(contest()), run_of(contest(**other)))


def test_the_comparison_says_which_versions_it_compares():
    old, new = run_of(contest(), version="0.1.0"), run_of(contest(ours=(3, 3, 3)), version="0.2.0")
    text = "\n".join(change_lines(old, new))
    assert "old: discreet 0.1.0" in text and "new: discreet 0.2.0" in text
    assert "pass: ours" in text and text.count("slower") == 1
    assert "pass: peer" not in text
