"""What docs/ shows for notebooks runs in a kernel of Jupyter that has nothing but flowdiff's own packages."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from oracles.notebook import cell, executed, kernel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
EXAMPLES = r"^```python\n(.*?)^```"


def test_the_notebook_goes_from_files_to_why(repository: Path) -> None:
    """From its first cell to its last in its own folder, as `jupyter execute` runs it; kept as it was run."""
    kept = json.loads((repository / "docs" / "internals" / "tour.ipynb").read_text())
    cells = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 10
    pictures = [
        output["data"]["image/png"]
        for cell in cells
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 2
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    done = executed(kept, repository / "docs" / "internals", pictures=False)
    again = [cell for cell in done["cells"] if cell["cell_type"] == "code"]
    for now, then in zip(again, cells, strict=True):
        assert now["execution_count"] == then["execution_count"]
        assert [output["output_type"] for output in now["outputs"]] == [
            output["output_type"] for output in then["outputs"]
        ]
        assert [{*output.get("data", {})} for output in now["outputs"]] == [
            {*output.get("data", {})} for output in then["outputs"]
        ]
    printed = "".join(str(output.get("text")) for cell in again for output in cell["outputs"])
    assert "calling recommendationservice" in printed


def test_what_the_page_on_python_shows_runs_in_a_kernel(repository: Path, tmp_path: Path) -> None:
    """Where DuckDB would draw progress, and rich would show each text that it makes."""
    page = (repository / "docs" / "internals" / "python.md").read_text(encoding="utf-8")
    assert page.count("requests=1000") == 2
    examples = re.findall(EXAMPLES, page.replace("requests=1000", "requests=250"), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 7
    with kernel(tmp_path) as client:
        for example in examples:
            assert {output["output_type"] for output in cell(client, example)} <= {"stream"}, example
        for shown in ("lake.windows()", "lake.requests('2026-11-19')", "flow", "flow.spans", "found", "wide"):
            (output,) = cell(client, shown)
            assert output["output_type"] == "execute_result"
            assert {*output["data"]} == {"text/plain", "text/html"}
        (output,) = cell(client, "found")
        summary = output["data"]["text/html"].partition("<iframe")[0]
        # A notebook that is not trusted drops frames, scripts and styles, and shows these.
        assert {*re.findall(r"</?(\w+)", summary)} == {"details", "summary", "ol", "li"}
        (told,) = cell(client, "print(found.findings[0].title, end='')")
        assert re.sub(r"[<>&'\"].*", "", told["text"]) in summary
