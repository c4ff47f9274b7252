"""`flowdiff import --engine spark` on a cluster of this machine: the bytes of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.mixed_input import mixed, tree

from stitch.lake.fsck import check
from stitch.lake.place import open_store

pytestmark = pytest.mark.spark
PATIENCE_S = 600.0
SPARK = (
    *("--engine", "spark", "--master", "local-cluster[2,1,512]"),
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.ui.enabled=false"),
)


def put(lake: Path, files: list[Path], *options: str) -> dict[str, object]:
    """Import files; the summary."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "flowdiff",
            "import",
            *map(str, files),
            "--lake",
            str(lake),
            "--json",
            *options,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def test_executors_write_the_bytes_of_one_process(tmp_path: Path) -> None:
    files = mixed(tmp_path / "in")
    here, there = tmp_path / "here", tmp_path / "there"
    assert put(there, files, *SPARK)["counters"] == put(here, files)["counters"]
    assert check(open_store(str(there))) == []
    mine, theirs = tree(there), tree(here)
    for each in (mine, theirs):
        each.pop("flowdiff.json")
    assert mine == theirs
    assert {name.split("/")[0] for name in mine} >= {"flows", "structures", "dead_letters"}
