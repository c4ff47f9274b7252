"""The tree keeps its rules: a file is found by its name, and is not long."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

MOST_LINES = 400


@pytest.mark.parametrize("package", ["schemas", "ingest", "stitch", "analyze", "flowdiff"])
def test_a_file_name_is_used_once_a_package(repository: Path, package: str) -> None:
    names = Counter(path.name for path in (repository / package).rglob("*.py") if path.name != "__init__.py")
    assert names
    # Every method has a module `method`, by which it is found.
    assert {name for name, uses in names.items() if uses > 1} <= {"method.py"}


@pytest.mark.parametrize("package", ["schemas", "ingest", "stitch", "analyze", "flowdiff"])
def test_modules_are_short(repository: Path, package: str) -> None:
    lines = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (repository / package).rglob("*.py")
    }
    assert {name for name, count in lines.items() if count > MOST_LINES} == set()
