"""After `make demo` every example of the README can be copied and run as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.forked_command import forked_command

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    block
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    if "make " not in block
]


def commands(block: str) -> list[str]:
    """Commands of a block, continued lines joined."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def _check(line: str) -> str:
    """Ends the script where a command has failed; 1 and 3 are what `compare` says of changes."""
    told = f"echo {shlex.quote(line)} gave $code >&2"
    return f"code=$?; [ $code -le 1 ] || [ $code -eq 3 ] || {{ {told}; exit 9; }}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout after `make demo`. Its other commands are forked."""
    folder = tmp_path_factory.mktemp("readme")
    demo = [sys.executable, "-m", "flowdiff", "demo"]
    done = subprocess.run(demo, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / ".venv").mkdir()
    with forked_command(folder / ".venv"):
        yield folder


def test_every_example_runs(place: Path) -> None:
    lines = [line for block in BLOCKS for line in commands(block)]
    assert sum("flowdiff " in line for line in lines) >= 10
    checked = [f"{line.partition(' #')[0].rstrip()}\n{_check(line)}" for line in lines]
    done = subprocess.run(["bash", "-c", "\n".join(checked)], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (place / "demo" / "edges.parquet").stat().st_size > 0
    assert (place / "demo" / "flows.dot").stat().st_size > 0
    told = " ".join(done.stdout.split())
    assert "✗ SLOWER since 20:38" in told
    # Callers of the slow query that the finding joins are affected, too.
    assert re.search(r"% of the requests: [^.]*frontend/POST /cart, frontend/POST /checkout\.", told)
    assert "only warehouse is eu-2" in told
    assert "with inventory service.version 1.8.1 → 1.8.2" in told
    assert "critical path" in done.stdout
