"""A clone is enough: nothing beside it is opened, by the product or by a test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SYSTEM = ("/usr", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", sys.prefix, sys.base_prefix)
OPENS = ("--seccomp-bpf", "-f", "-qq", "-z", "-y", "-e", "trace=open,openat,openat2,execve")
OPENED = re.compile(r"= \d+<(/[^>]*)>$", re.MULTILINE)
GUARDED = """
from pathlib import Path
import pytest

def test_beside(tmp_path, repository):
    for name in (repository.parent / "neighbour.json", repository / ".." / "neighbour.json"):
        with pytest.raises(PermissionError, match="beside the clone"):
            name.read_text()
    (tmp_path / "mine").write_text("x")
    assert Path(__file__).read_text()
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_test_cannot_open_what_lies_beside_the_clone(repository: Path, tmp_path: Path) -> None:
    """Wherever this clone lies: in one with the same `conftest.py` and a neighbour."""
    clone = tmp_path / "clone"
    (clone / "tmp").mkdir(parents=True)
    (tmp_path / "neighbour.json").write_text("{}")
    for name in ("tests/fixtures", "tests/oracles"):
        shutil.copytree(repository / name, clone / name)
    for name in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(repository / name, clone / name)
    (clone / "tests" / "test_beside.py").write_text(GUARDED)
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert "1 passed" in run(*pytest_, cwd=clone, TMPDIR=str(clone / "tmp"))


def test_no_path_outside_the_clone_is_opened(repository: Path, tmp_path: Path) -> None:
    """By the demo, a query and tests that read recordings, their children and DuckDB, as strace sees."""
    if not (strace := shutil.which("strace")):
        pytest.skip("strace is not installed (Debian: apt-get install strace)")
    if subprocess.run([strace, "-qq", "-o", tmp_path / "may", "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace processes here")
    for made in ("home", "tmp"):
        (tmp_path / made).mkdir()
    path = f"{repository}{os.pathsep}{repository / 'tests'}"
    here = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": path}
    (tmp_path / "neighbour.json").write_text("{}")
    python = (sys.executable, "-B", "-m")
    told = ("-c", "select count(*) from nodes", "--lake", tmp_path / "demo" / "lake")
    page = "tests/integration/test_stitch_real_traces.py"
    quiet = ("-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "pytest")
    traced = {
        "demo": (*python, "flowdiff", "demo", tmp_path / "demo", "--requests", "300"),
        "sql": (*python, "flowdiff", "sql", *told),
        "tests": (*python, "pytest", *quiet, page, "-k", "small"),
        "beside": ("cat", tmp_path.parent / tmp_path.name / ".." / tmp_path.name / "neighbour.json"),
    }
    outside = {}
    for name, command in traced.items():
        calls = tmp_path / f"{name}.strace"
        run(strace, *OPENS, "-o", calls, *command, cwd=repository, **here)
        opened = {Path(text) for text in OPENED.findall(calls.read_text())}
        assert opened
        ours = [tmp_path / one for one in ("demo", "pytest", "tmp")]
        system = [repository, *map(Path, SYSTEM)]  # temporary files may lie below /dev
        outside[name] = {
            path
            for path in opened
            if not any(
                path.is_relative_to(one) for one in (ours if path.is_relative_to(tmp_path) else system)
            )
        }
    assert outside.pop("beside") == {tmp_path / "neighbour.json"}  # so that the test can fail
    assert not any(outside.values()), outside


def test_a_clone_beside_the_program_does_not_stand_for_the_package(repository: Path, tmp_path: Path) -> None:
    """From the folder above a clone called `flowdiff`, which holds a folder of that name and is none."""
    (tmp_path / "flowdiff").symlink_to(repository)
    assert (
        run(sys.executable, "-c", "import flowdiff; print(flowdiff.open.__name__)", cwd=tmp_path) == "open\n"
    )
