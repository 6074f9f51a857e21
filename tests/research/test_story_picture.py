"""The picture of the story: drawn of the report that its page's commands write."""

import numpy as np
import pytest
from PIL import Image
from support.browsers import needs_browser

from research.story_picture import PAGE, SIZE, draw, story


def test_the_story_is_told_as_far_as_the_report():
    told = story()
    assert "discreet import" in told and told.endswith("|| test $? = 3")
    assert "discreet init" not in told and "discreet init" in PAGE.read_text()


def test_the_page_has_its_picture():
    assert f"({PAGE.stem}.png)" in PAGE.read_text()
    with Image.open(PAGE.with_suffix(".png")) as picture:
        assert picture.size == SIZE


@pytest.mark.slow
@needs_browser
def test_what_a_reader_sees_first_is_drawn(tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<body style='background: #123456'><p style='margin-top: 3000px'>below</p>")
    draw(report, tmp_path / "first.png")
    with Image.open(tmp_path / "first.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape == (SIZE[1], SIZE[0], 3)
    assert (pixels == (0x12, 0x34, 0x56)).all()
