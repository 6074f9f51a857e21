import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.layout import Column, table, wrapped

COLUMNS = (Column("who", gap=0), Column("error", right=True), Column("what was seen"))
ROWS = [
    ("hall", "12.5 % (10.1 to 15.0)", "nothing that was not seen before"),
    ("the sensor at the door", "8.5 %", ""),
]


def test_without_a_width_nothing_is_wrapped():
    assert wrapped("word " * 50, None) == ["word " * 50]
    assert table(COLUMNS, ROWS) == [
        "who                                     error  what was seen",
        "hall                    12.5 % (10.1 to 15.0)  nothing that was not seen before",
        "the sensor at the door                  8.5 %",
    ]


def test_words_of_a_cell_are_wrapped_and_figures_are_not():
    assert table(COLUMNS, ROWS, 50) == [
        "who                           error  what was seen",
        "hall          12.5 % (10.1 to 15.0)  nothing that",
        "                                     was not seen",
        "                                     before",
        "the sensor                    8.5 %",
        "at the door",
    ]


def test_where_that_is_not_enough_a_row_is_a_list():
    assert table(COLUMNS, ROWS, 36, indent=2) == [
        "  who",
        "  hall",
        "      error 12.5 % (10.1 to 15.0);",
        "      what was seen nothing that was",
        "      not seen before",
        "  the sensor at the door",
        "      error 8.5 %",
    ]


def test_columns_without_titles_have_no_line_of_titles():
    rows = [("day", "a counter, or the number of a day")]
    assert table([Column(gap=0), Column()], rows, 24) == [
        "day  a counter, or the",
        "     number of a day",
    ]


@pytest.mark.parametrize(
    ("line", "width", "expected"),
    [
        ("right in 50.0 % of all", 14, ["right in", "  50.0 % of", "  all"]),
        ("about 0.6 ± 2.9 points", 14, ["about", "  0.6 ± 2.9", "  points"]),
        ("  - run `discreet audit`", 20, ["  - run", "    `discreet audit`"]),
        ("next: discreet check h.csv --x 1", 20, ["next: discreet check h.csv --x 1"]),
        (
            "of use would be more: discreet learn h.csv --max-advantage 0.1",
            16,
            ["of use would be", "  more: discreet learn h.csv --max-advantage 0.1"],
        ),
        ("sha256:0123456789abcdef", 10, ["sha256:0123456789abcdef"]),
    ],
)
def test_figures_commands_and_long_words_stay_whole(line, width, expected):
    assert wrapped(line, width) == expected


words = st.text("abc", min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=30).map(" ".join), st.integers(12, 60))
def test_every_line_fits_and_no_word_is_lost(text, width):
    lines = wrapped(text, width)
    assert all(len(line) <= width for line in lines)
    assert " ".join(lines).split() == text.split()


cells = st.lists(words, max_size=5).map(" ".join)


@given(st.lists(st.tuples(words, words, cells), min_size=1, max_size=6), st.integers(24, 90))
def test_every_row_fits_and_no_cell_is_lost(rows, width):
    lines = table(COLUMNS, rows, width)
    assert all(len(line) <= width for line in lines)
    told = sorted(" ".join(lines).replace(";", " ").split())
    for row in rows:
        for word in " ".join(row).split():
            told.remove(word)
