"""The golden file: what flowdiff says today, kept beside the tests."""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected"
DIFF_LINES = 60


@pytest.fixture(scope="session")
def expected_folder() -> Path:
    """Where the golden files lie."""
    return EXPECTED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, found)` fails unless `expected/<name>` holds `found`, to the byte.

    With `--rewrite-golden` it writes the file instead; if that changed it, the test is reported as skipped.
    """
    rewrite = request.config.getoption("--rewrite-golden")

    def check(name: str, found: str) -> None:
        path = EXPECTED / name
        known = path.read_bytes().decode() if path.is_file() else None
        if known == found:
            return
        if rewrite:
            path.write_bytes(found.encode())
            pytest.skip(f"rewrote {name}")
        if known is None:
            pytest.fail(f"{name} is missing: run `pytest tests/golden --rewrite-golden`", pytrace=False)
        lines = unified_diff(known.splitlines(), found.splitlines(), "expected", "found", "", "", 1, "")
        shown = "\n".join(islice(lines, DIFF_LINES))
        pytest.fail(f"{name} changed (if it should, see tests/golden/README.md):\n{shown}", pytrace=False)

    return check
