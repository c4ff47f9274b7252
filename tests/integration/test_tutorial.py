"""The commands of docs/tutorial.md run as they stand, one after the other, in an empty folder.

Of a quarter of the requests: to simulate all would take twice as long as all the rest. The first command is a
new Python, the others are forked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from oracles.forked_command import forked_command

FLOWDIFF = """
set -eu -o pipefail
start=("$NEW_PYTHON" -m flowdiff)
flowdiff() {
    code=0
    "${start[@]}" "$@" || code=$?
    start=(command flowdiff)
    # A comparison that finds something ends with 1.
    [ $code = 0 ] || [ "$1 $code" = "compare 1" ]
}
"""


def test_a_first_hour(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert page.count("--requests 2000 ") == 3
    page = page.replace("--requests 2000 ", "--requests 500 ")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    with forked_command(tmp_path) as folder:
        told = {
            "NEW_PYTHON": sys.executable,
            "PYTHONPATH": str(repository),
            "PATH": f"{folder}:{os.environ['PATH']}",
        }
        script = FLOWDIFF + "".join(blocks)
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env={**os.environ, **told}, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert "sn/LOG_WRITE: its own time is" in " ".join(done.stdout.split())
    assert "critical path" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 50_000
