"""A clone is enough: nothing beside it can be opened by a test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


def test_what_lies_beside_the_clone_cannot_be_opened(repository: Path, tmp_path: Path) -> None:
    if repository.parent in (Path("/"), *Path(tempfile.gettempdir()).parents, Path(tempfile.gettempdir())):
        pytest.skip("what is beside a clone in the root or among temporary files belongs to everybody")
    with pytest.raises(PermissionError, match="beside the clone"):
        (repository.parent / "a neighbour" / "traces.json").read_text()
    with pytest.raises(PermissionError, match="beside the clone"):
        (repository / ".." / "traces.json").read_text()
    (tmp_path / "mine").write_text("x")
    assert (repository / "pyproject.toml").read_text()
