"""The native reader is built where cargo is, and left out, with a word, where it is not or fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.tags import compatible_tags, platform_tags
from packaging.utils import parse_wheel_filename

from ingest.codecs.otlp.wire.build import DIGEST, FOLDER, LIBRARY, build
from ingest.codecs.otlp.wire.library import find_library

WIRE = "flowdiff/ingest/codecs/otlp/wire/"
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
BUILD = """
import sys
sys.path.insert(0, "deploy/packaging")
import one_package
getattr(one_package, sys.argv[1])(sys.argv[2])
"""


@pytest.fixture(autouse=True)
def _quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cargo optimize nothing: a tenth of its time. `make native` builds with the profile as it stands."""
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_LTO", "off")


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    """What a package index would get, without what was built here, of each room its first file only."""
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "libwire.*")
    for name in ("flowdiff", "schemas", "ingest", "stitch", "analyze", "simulator"):
        (clone / name).mkdir(parents=True)
        shutil.copy(repository / name / "__init__.py", clone / name)
    for name in ("ingest/codecs/otlp/wire", "deploy/packaging"):
        shutil.copytree(repository / name, clone / name, ignore=ignored)
    for name in ("ingest/codecs", "ingest/codecs/otlp"):
        shutil.copy(repository / name / "__init__.py", clone / name)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(repository / name, clone)
    return clone


def built(clone: Path, to: Path, path: str, what: str = "build_wheel") -> tuple[Path, str]:
    """A wheel that was built with this PATH, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(to)],
        cwd=clone,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = to.glob("*.whl")
    return wheel, done.stderr


def path_of(tmp_path: Path, cargo: str) -> str:
    """A PATH whose `cargo` is a script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cargo").write_text(cargo)
    (folder / "cargo").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def needs_cargo() -> str:
    if (cargo := shutil.which("cargo")) is None:
        pytest.skip("no cargo, so no native reader")
    return cargo


@pytest.mark.slow
def test_a_wheel_with_the_library_is_of_this_platform_and_any_python(clone: Path, tmp_path: Path) -> None:
    needs_cargo()
    wheel, _ = built(clone, tmp_path, os.environ["PATH"])
    assert wheel.name.endswith(f"-py3-none-{PLATFORM}.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = {name.removeprefix(WIRE) for name in packed.namelist() if name.startswith(WIRE)}
        packed.extractall(tmp_path / "site")
    assert names == {"__init__.py", "build.py", "library.py", "reading.py", "tables.py", LIBRARY}
    assert find_library(tmp_path / "site" / WIRE).reader == "native reader"
    assert not (clone / "ingest/codecs/otlp/wire" / LIBRARY).exists()
    *_, tags = parse_wheel_filename(wheel.name)
    for minor in (11, 12, 13, 14):
        assert not tags.isdisjoint(compatible_tags((3, minor), platforms=platform_tags())), minor
    for python in other_pythons():
        load = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).walk"
        subprocess.run([python, "-c", load, str(tmp_path / "site" / WIRE / LIBRARY)], check=True)


def other_pythons() -> list[str]:
    """Other versions of Python on this machine that start."""
    found = (shutil.which(f"python3.{minor}") for minor in range(11, 20) if minor != sys.version_info.minor)
    return [python for python in found if python and subprocess.run([python, "-V"]).returncode == 0]


@pytest.mark.parametrize(
    ("cargo", "why"),
    [("", "no cargo"), ("#!/bin/sh\nexit 101\n", "exit status 101"), ("no program", "Exec format error")],
    ids=["no cargo", "a build that fails", "no program"],
)
def test_a_wheel_without_the_library_is_of_any_platform(
    clone: Path, tmp_path: Path, cargo: str, why: str
) -> None:
    # What was built here is of other sources, and must not go along.
    (clone / "ingest/codecs/otlp/wire" / LIBRARY).write_bytes(b"of this machine")
    wheel, said = built(clone, tmp_path, path_of(tmp_path, cargo) if cargo else str(tmp_path))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "portable reader" in said
    assert why in said
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    assert find_library(tmp_path / "site" / WIRE).reader == "portable reader (no native library)"


@pytest.mark.slow
def test_an_editable_installation_builds_for_release_in_place(clone: Path, tmp_path: Path) -> None:
    needs_cargo()
    built(clone, tmp_path, os.environ["PATH"], "build_editable")
    folder = clone / "ingest/codecs/otlp/wire"
    assert find_library(folder).reader == "native reader"
    assert any((clone / "build/wire/release").glob("*wire.*"))

    source = folder / "src" / "walk.rs"
    source.write_text(source.read_text() + "\n// changed\n")
    older = "portable reader (the native library is older than its source: `make native` builds it)"
    assert find_library(folder).reader == older
    assert build(folder, folder, clone / "build/wire") == folder / LIBRARY
    assert find_library(folder).reader == "native reader"


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / LIBRARY).write_bytes(b"no library")
    assert "cannot be loaded" in find_library(tmp_path).why
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text("")
    assert "older than its source" in find_library(tmp_path).why
    (tmp_path / LIBRARY).unlink()
    assert "`make native` builds it" in find_library(tmp_path).why


def test_what_is_built_is_in_no_source_distribution(repository: Path) -> None:
    excluded = (repository / "MANIFEST.in").read_text()
    assert LIBRARY.partition(".")[0] in excluded
    assert (repository / ".gitignore").read_text().count("wire/libwire.*") == 1
    assert DIGEST.startswith("libwire.")
    assert (FOLDER / "Cargo.lock").read_text().count("[[package]]") == 1  # no crates: nothing to download


def test_config_says_which_reader_runs() -> None:
    command = [sys.executable, "-m", "flowdiff", "config", "--topics", "t", "--bootstrap", "localhost:9"]
    done = subprocess.run([*command, "--lake", "lake"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first == f"# OTLP protobuf: {find_library(FOLDER).reader}"


def test_the_image_builds_the_library_and_fails_without_it(repository: Path, tmp_path: Path) -> None:
    """Its file installs cargo before flowdiff, and asks `flowdiff config`, which answers without settings."""
    build, _, _ = (
        (repository / "deploy/Containerfile").read_text().partition("\nFROM ${PYTHON}\nRUN groupadd")
    )
    check = "flowdiff config | grep --quiet 'native reader'"
    assert build.index("rustup default") < build.index("COPY ingest ./ingest") < build.index(check)
    ignored = (repository / "deploy/Containerfile.dockerignore").read_text().splitlines()
    assert "!ingest" in ignored
    assert not any(line.endswith((".rs", "Cargo.toml", "Cargo.lock")) for line in ignored)
    command = [sys.executable, "-m", "flowdiff", "config"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[0] == f"# OTLP protobuf: {find_library(FOLDER).reader}"
