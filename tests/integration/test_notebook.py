"""The notebook of docs/ runs from its first cell to its last, and is kept as it was run."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from oracles.notebook import executed


def test_the_notebook_goes_from_files_to_why(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    kept = json.loads((repository / "docs" / "tour.ipynb").read_text())
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
    again = [cell for cell in executed(kept, pictures=False)["cells"] if cell["cell_type"] == "code"]
    for now, then in zip(again, cells, strict=True):
        assert now["execution_count"] == then["execution_count"]
        assert [output["output_type"] for output in now["outputs"]] == [
            output["output_type"] for output in then["outputs"]
        ]
    printed = "".join(str(output.get("text")) for cell in again for output in cell["outputs"])
    assert "calling recommendationservice" in printed
