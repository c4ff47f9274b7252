"""The wheel in an environment of its own: one package, whatever else lies beside it or in the folder."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
ROOMS = ("schemas", "ingest", "stitch", "analyze", "simulator")


QUICK_COMPILER = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_LTO": "off"}
"""Environment in which cargo optimizes nothing: a tenth of its time, twice."""
DAYS = "--reference 2026-11-18T20:20/3m --problem 2026-11-18T20:23/2m"
ENDS = {
    "simulate --requests 100 --out more.ndjson": 0,
    "import more.ndjson --lake more": 0,
    "windows": 0,
    "categories": 0,
    f"compare {DAYS} --method robust --method paper --html page.html --json report.json": 1,
    "variance --period 2026-11-18T20:23/2m": 0,
    f"variance {DAYS}": 0,
    f"distalyze {DAYS}": 0,
    "browse --period 2026-11-18T20:23/2m": 0,
    "reports": 0,
    "flow 0": 2,  # several begin so, and are named
    "export --format otlp -o spans.json": 0,
    "export --format dot -o flows.dot": 0,
    "summarize": 0,
    "repair": 0,
    "retain --keep 99999d": 0,
    "compact": 0,
    "end-lane": 0,
    "calibrate": 2,  # two windows are too few
    "watch --once": 3,  # it has learned, and decided nothing yet
    "incidents": 0,
    "config --topics t --bootstrap localhost:9": 0,
    "fsck": 0,
    f"clusters {DAYS}": 2,
    "produce more.ndjson --topic t --bootstrap localhost:9": 2,
    "rekey t --to u --bootstrap localhost:9": 2,
    "ingest --topics t --bootstrap localhost:9": 2,
    "top localhost:9": 2,
    "publish --iceberg shop": 2,
    "up": 2,
    "serve": 2,
    "mcp": 2,
}
"""Commands on a demo's lake, and the code each ends with where no extra is installed."""
EXTRA = {
    **{"clusters": "clusters", "publish": "iceberg", "serve": "serve", "mcp": "mcp"},
    **{"produce": "kafka", "rekey": "kafka", "ingest": "kafka", "top": "kafka"},
    **{"up": "serve", "serve": "serve", "mcp": "mcp"},
}

SMOKE = """
import contextlib, io, json, pkgutil, sys
import flowdiff
from flowdiff.__main__ import COMMANDS, run
from flowdiff.cli.outcome import exit_code
from flowdiff.extras import EXTRAS

ends, extra = map(json.loads, sys.argv[1:])
others = {*COMMANDS} - {command.split()[0] for command in ends}
assert others == {"build", "sql", "demo", "diff"}, others
for name in others:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert not run([name, "--help"]), name
    assert f"flowdiff {name} " in shown.getvalue(), name
for command, code in ends.items():
    with contextlib.redirect_stderr(io.StringIO()) as told:
        assert exit_code(lambda: run(command.split())) == code, (command, told.getvalue())
    needs = extra.get(command.split()[0])
    assert needs is None or f"pip install 'flowdiff[{needs}]'" in told.getvalue(), told.getvalue()
days = flowdiff.open("demo/lake").sql("select count(*) n from windows")["n"][0]
beside = {"pandas", "polars", *EXTRAS} & {*sys.modules}
for module in pkgutil.walk_packages(flowdiff.__path__, "flowdiff."):
    try:
        __import__(module.name)
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in EXTRAS, (module.name, error.name)
print(days, flowdiff.__version__, beside)
"""


def checked(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", **QUICK_COMPILER, **environment},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy of the sources that a build reads; it may write beside them."""
    clone = tmp_path_factory.mktemp("clone") / "clone"
    for name in ("flowdiff", *ROOMS, "deploy/packaging"):
        shutil.copytree(repository / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(repository / name, clone)
    return clone


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a source distribution, as a package index would get it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; sys.path.insert(0, 'deploy/packaging'); import one_package; one_package."
    checked(sys.executable, "-c", f"{build}build_sdist(sys.argv[1])", folder, cwd=clone)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as packed:
        packed.extractall(folder, filter="data")
    checked(
        sys.executable, "-c", f"{build}build_wheel(sys.argv[1])", folder, cwd=next(folder.glob("flowdiff-*/"))
    )
    return next(folder.glob("*.whl"))


def closure(names: Iterable[str]) -> set[str]:
    """Distributions that some need, as they say themselves."""
    seen: set[str] = set()
    waiting = [*names]
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        plain = (text for text in metadata.requires(name) or () if ";" not in text)
        waiting.extend(re.split(r"[^\w.-]", text)[0].lower() for text in plain)
    return seen


def environment(folder: Path, needed: Iterable[str]) -> Path:
    """A virtual environment that has nothing but some distributions of this one, as links; its `bin`."""
    venv.create(folder, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in needed:
        for file in metadata.distribution(name).files or ():
            if (top := file.parts[0]) != ".." and not (site / top).exists():
                (site / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    return folder / "bin"


@pytest.fixture(scope="module")
def bare(wheel: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of an environment with the wheel and what it requires; no extra."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^\w-]", text)[0].lower() for text in project["dependencies"]}
    folder = environment(tmp_path_factory.mktemp("bare"), closure(required))
    checked(*PIP, "--python", folder / "python", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    return folder


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder to work in, whose modules have the names of ours."""
    (tmp_path / "ingest").mkdir()
    for name in ("schemas.py", "analyze.py", "stitch.py", "ingest/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('a module of the folder was imported')\n")
    return tmp_path


def test_everything_importable_is_in_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        texts = {name: packed.read(name).decode() for name in names if name.endswith(".py")}
    # So another distribution that has a package `ingest` neither takes from ours nor is taken from.
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"flowdiff"}
    assert "flowdiff/py.typed" in names
    for room in ROOMS:
        assert f"flowdiff/{room}/__init__.py" in names
    of_a_room = re.compile(rf"^\s*(?:from|import)\s+(?:.*\W)?(?:{'|'.join(ROOMS)})\b", re.MULTILINE)
    for name, text in texts.items():
        if not of_a_room.search(text):  # which includes `from flowdiff.ingest import`, and lines of texts
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & {*ROOMS}, name
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in ROOMS, name


def test_the_demo_runs_beside_modules_of_the_same_names(bare: Path, hostile: Path) -> None:
    path = {"PYTHONPATH": str(hostile)}
    # `-m` puts the folder itself in front of everything installed.
    printed = checked(
        *(bare / "python", "-m", "flowdiff", "demo", "--requests", "1500"),
        cwd=hostile,
        **path,
    )
    assert "✗ SLOWER" in printed
    # What the report says to look at next is there to be run.
    (request_id,) = re.findall(r"see +flowdiff flow (\S+)", printed)
    assert "critical path" in checked(
        bare / "flowdiff", "flow", request_id, "--lake", "demo/lake", cwd=hostile, **path
    )
    assert (hostile / "demo" / "report.html").stat().st_size > 50_000
    query = "select root from requests limit 1"
    assert "frontend/" in checked(
        bare / "flowdiff", "sql", "--lake", "demo/lake", "-c", query, cwd=hostile, **path
    )
    (hostile / "smoke.txt").write_text(SMOKE)
    asked = ("smoke.txt", json.dumps(ENDS), json.dumps(EXTRA))
    told = checked(bare / "python", *asked, cwd=hostile, **path, FLOWDIFF_LAKE="demo/lake")
    assert told.endswith("1 0.1.0 set()\n")


def test_the_examples_of_the_page_run_without_any_extra(bare: Path, hostile: Path, repository: Path) -> None:
    """One after the other, of fewer requests. All but clusters, which is in none of them."""
    page = (repository / "docs" / "internals" / "python.md").read_text()
    assert page.count("requests=1000") == 2
    page = page.replace("requests=1000", "requests=500")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 5
    shown = "print(flowdiff.__file__, found._repr_html_().count('<iframe'))"
    (hostile / "examples.py").write_text("\n".join([*examples, shown]))
    printed = checked(bare / "python", "examples.py", cwd=hostile, PYTHONPATH=str(hostile))
    assert re.search(rf"^{re.escape(str(bare.parent))}\S+ 1$", printed, re.MULTILINE)
    assert "changed" in printed
    assert "with a standard deviation of" in printed
    assert (hostile / "report.html").stat().st_size > 50_000


def test_the_demo_runs_from_a_clone_without_an_installation(
    clone: Path, repository: Path, tmp_path: Path
) -> None:
    """As the README says; what it requires comes from the package index, once."""
    cache = repository / ".cache" / "uv"
    command = (
        "-m",
        "uv",
        "tool",
        "run",
        "--quiet",
        "--from",
        clone,
        "flowdiff",
        "demo",
        "--requests",
        "800",
    )
    printed = checked(sys.executable, *command, cwd=tmp_path, UV_CACHE_DIR=str(cache))
    assert "✗ SLOWER" in printed
    assert (tmp_path / "demo" / "report.html").stat().st_size > 50_000
