"""Types of the product, and of programs and helpers among the tests that the suite does not run itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mypy_finds_nothing(repository: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
