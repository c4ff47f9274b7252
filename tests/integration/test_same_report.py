"""The same lake and question give the same bytes of `report.json`, whatever computes them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fixtures.recipes_lake import fill

import flowdiff

QUESTIONS = (
    (),
    ("--where", "duration > 1us and host like '%'"),
    ("--statistics", "all", "--set", "robust.blocks=20"),
)
DAYS = ("--reference", "2026-11-18", "--problem", "2026-11-19")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("same")
    made = flowdiff.open(folder / "lake", create=True)
    fill(made, 300, folder)
    return made.name


def report(
    lake: str, question: tuple[str, ...], *, threads: int, seed: int, cores: int, workers: int
) -> bytes:
    """`report.json` of a process of its own, as libraries read at their start how many threads they get."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS")
    environ = dict.fromkeys(variables, str(threads)) | {"PYTHONHASHSEED": str(seed)}
    mine = os.sched_getaffinity(0)
    begin = f"import os; os.sched_setaffinity(0, {sorted(mine)[:cores]})"
    ask = ("compare", "--lake", lake, *DAYS, *question, "--no-save", "--fail-on", "never", "--json", "-")
    command = [
        sys.executable,
        "-c",
        f"{begin}; from flowdiff.__main__ import main; main()",
        *ask,
        "--workers",
        str(workers),
    ]
    return subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environ}).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="cores of a process are set on Linux")
@pytest.mark.parametrize("question", QUESTIONS, ids=["requests", "filtered", "statistics"])
def test_a_report_is_the_same_whatever_computes_it(lake: str, question: tuple[str, ...]) -> None:
    first = report(lake, question, threads=1, seed=0, cores=1, workers=1)
    assert b'"findings"' in first
    if not question:
        assert report(lake, question, threads=2, seed=1, cores=2, workers=2) == first
    assert report(lake, question, threads=8, seed=2, cores=2, workers=3) == first
