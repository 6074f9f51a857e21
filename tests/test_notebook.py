"""The notebook of the manual, executed as a reader would."""

import nbformat
import pytest
from nbclient import NotebookClient

from research.manual import DOCS

NOTEBOOK = DOCS / "notebook.ipynb"


def test_the_notebook_is_stored_without_results():
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.slow
def test_the_notebook_does_what_it_says(tmp_path):
    book = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    shown = [{kind for out in cell.outputs for kind in out.get("data", {})} for cell in cells]
    drawn = [cell.source for cell, kinds in zip(cells, shown, strict=True) if "image/png" in kinds]
    assert len(drawn) == 3 and all(source.endswith(".plot()") for source in drawn)
    assert sum("text/html" in kinds for kinds in shown) >= 5
    assert {each.name for each in tmp_path.iterdir()} == {"report.html", "home.json"}
    errors = [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert not errors
