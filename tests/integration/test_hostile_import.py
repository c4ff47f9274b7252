"""Imports of what was made to hurt, as a process: what is sound is imported, secrets lie nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles import fork_server
from oracles.traffic import write_native, write_otlp

OVERLONG = b"\x0a\x0b\x12" + b"\xff" * 9 + b"\x01"
SECRET = "hunter2"
KEY = "a key of more than 16 bytes"


def run_import(
    repository: Path, lake: Path, *arguments: str | Path, key: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "flowdiff",
        "import",
        *map(str, arguments),
        "--lake",
        str(lake),
        "--json",
    ]
    environment = {**os.environ, **({} if key is None else {"FLOWDIFF_HASH_KEY": key})}
    return fork_server.run(
        command, cwd=repository, capture_output=True, text=True, check=False, env=environment
    )


def everything(lake: Path) -> str:
    """All that the lake says, in tables and beside them."""
    tables = [str(pq.ParquetFile(path).read().to_pylist()) for path in sorted(lake.rglob("*.parquet"))]
    texts = [path.read_text() for path in sorted(lake.rglob("*.json"))]
    return "\n".join(tables + texts)


def test_an_overlong_length_does_not_stop_an_import(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(OVERLONG)
    n_spans = write_otlp(tmp_path / "b.pb", 5)
    sound = (tmp_path / "b.pb").read_bytes()
    (tmp_path / "c.pb").write_bytes(sound + len(OVERLONG).to_bytes(4, "big") + OVERLONG)
    done = run_import(repository, tmp_path / "lake", tmp_path / "a.bin", tmp_path / "c.pb")
    assert (done.returncode, done.stderr) == (0, "")
    counters = json.loads(done.stdout)["counters"]
    assert (counters["events_read"], counters["rejects"]) == (n_spans, {"bad-protobuf": 2})


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Sound records and refused ones, with secrets in both."""
    path = tmp_path / "secrets.ndjson"
    write_native(path, 2)
    plain = {"breadcrumb": "b", "request_id": "r", "component": "c", "point": "p"}
    params = {"DB_Password": SECRET, "headers": {"cookie": SECRET}, "user.id": "ann", "user.mail": "m@x"}
    good = {**plain, "ts": 1_763_600_000_000_000_000, "params": params}
    bad = {**plain, "ts": "never", "params": params}
    lines = [json.dumps(good), json.dumps(bad), json.dumps(bad)[:-1]]
    path.write_text(path.read_text() + "\n".join(lines) + "\n")
    return path


def test_secrets_reach_no_file_of_the_lake(repository: Path, tmp_path: Path, secrets: Path) -> None:
    options = ("--hash-params", "user.id", "--redact-params", "*.mail")
    done = run_import(repository, tmp_path / "lake", secrets, *options, key=KEY)
    assert done.returncode == 0
    said = everything(tmp_path / "lake")
    assert "hmac:" in said
    assert "[redacted]" in said
    for hidden in (SECRET, "m@x", "'ann'", '"ann"', KEY):
        assert hidden not in said + done.stdout + done.stderr
    plain = run_import(repository, tmp_path / "plain", secrets)
    assert plain.returncode == 0
    assert SECRET not in everything(tmp_path / "plain")
    assert "m@x" in everything(tmp_path / "plain")


def test_the_key_of_hashes_comes_from_a_file_or_the_environment(
    repository: Path, tmp_path: Path, secrets: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    hashed = ("--hash-params", "user.*")
    lakes = [tmp_path / "by-file", tmp_path / "by-variable"]
    assert run_import(repository, lakes[0], secrets, *hashed, "--hash-key-file", file).returncode == 0
    assert run_import(repository, lakes[1], secrets, *hashed, key=KEY).returncode == 0
    params = [pq.read_table(next(lake.glob("params/*/*.parquet"))) for lake in lakes]
    assert params[0].equals(params[1])
    for wrong in ({"key": "short"}, {"key": ""}):
        refused = run_import(repository, tmp_path / "no", secrets, *hashed, **wrong)
        assert (refused.returncode, len(refused.stderr.splitlines()) <= 2) == (2, True)
        assert "16 bytes" in refused.stderr
