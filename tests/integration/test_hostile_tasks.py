"""Messages that somebody else puts into a lake: a worker reads nothing that it was not given, and says so."""

from __future__ import annotations

import hashlib
import json
import pickle
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles.bucket_server import BucketServer
from oracles.traffic import native_lines, write_native

from flowdiff.__main__ import main
from schemas.commits import Publish
from schemas.errors import InputError, LakeError
from schemas.rejects import Reason, Reject
from schemas.windows import Window
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.inputs import Source
from stitch.drivers.partition import FANOUT
from stitch.drivers.refusals import DaysSeen
from stitch.drivers.sharded.exchange import Exchange, RemoteStage, SharedFolder, StoredFile
from stitch.drivers.sharded.left_parts import LeftPart
from stitch.drivers.sharded.messages import (
    TASKS,
    ResultFile,
    TaskFailed,
    Workplace,
    read_result,
    result_of,
    settings_hash,
)
from stitch.drivers.sharded.own_inputs import OwnInputs, named
from stitch.drivers.sharded.stitching import GroupOutcome
from stitch.drivers.sharded.tasks import FileCounts, FileDealt, Job
from stitch.drivers.spill import Dealt, Group
from stitch.lake.place import open_store

SETTINGS = ImportSettings(memory_bytes=64 * 2**20)
TOKEN = "0123456789abcdef"
STAGE = f"stage/lane=0/000000000001-{TOKEN}-"
KNOWN = {"sha256": "0" * 64, "size": 1, "mtime_ns": 1}
SECRET = "4f0a-the-words-of-the-secret"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A file of the command line."""
    file = tmp_path / "given" / "a.ndjson"
    file.parent.mkdir()
    write_native(file, 30, seed=1, seconds=300)
    return file


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that the user may read, and that was not given; its records could be imported."""
    file = tmp_path / "secret.ndjson"
    file.write_text("\n".join(native_lines(30, seconds=300)).replace("web", SECRET))
    return file


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    """Somebody who listens, and must not be called."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        yield listening
        with pytest.raises(TimeoutError):
            listening.accept()


def task_file(task: dict[str, Any], scratch: str | None = TOKEN, **more: Any) -> bytes:
    settings = settings_hash(SETTINGS.named())
    return json.dumps({"settings": settings, "scratch": scratch, "task": task, **more}).encode()


def deal(input_: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "deal_file", "input": input_, "decoders": 1, **more}


def worker(lake: Path, data: bytes, given: Path, *options: str) -> int:
    """Run worker 1 of 2 beside a queue with one task; its exit code."""
    queue = lake / f"{STAGE}job-a"
    queue.mkdir(parents=True)
    (queue / "task-000000").write_bytes(data)
    words = ["import", str(given), *options, "--lake", str(lake), "--memory", "64MB", "--job", "a"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--worker", "1/2"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refused(lake: Path, data: bytes, given: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Assert that a task is refused in one line, and that nothing came of it; the line."""
    assert worker(lake, data, given, *options) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "encrypted" not in line]
    assert len(lines) == 1
    written = [path for path in (lake / "stage").rglob("*") if path.is_file()]
    left = sorted(path.name for path in written if path.parent.name != "drafts")
    assert left == ["claim-000000", "task-000000"], "no result, nothing dealt"
    return lines[0]


def pickled(secret: Path, lake: Path) -> bytes:
    """A task as flowdiff wrote it until now, of a file that was not given."""
    job = Job(str(lake), 0, 1, STAGE, SharedFolder(lake / "stage" / "scratch" / TOKEN), SETTINGS)
    data = secret.read_bytes()
    status = secret.stat()
    source = Source("x", secret, hashlib.sha256(data).hexdigest(), status.st_size, status.st_mtime_ns)
    task = lake.parent / "pickled"

    class Writer(pickle.Pickler):
        def persistent_id(self, obj: Any) -> bytes | None:
            if isinstance(obj, ImportSettings):
                return hashlib.sha256(obj.model_dump_json().encode()).digest()
            return None

    with task.open("wb") as file:
        Writer(file).dump(("deal_file", (job, source, 1), {}))
    return task.read_bytes()


def test_a_pickled_task_is_refused(
    given: Path, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(tmp_path / "lake", pickled(secret, tmp_path / "lake"), given, capsys)
    assert "A task in the lake is not what flowdiff writes" in said


def test_a_file_that_was_not_given_is_refused(
    given: Path, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = task_file(deal({"kind": "file", "name": named(secret), **KNOWN}))
    assert "which this worker was not given" in refused(tmp_path / "lake", data, given, capsys)


@pytest.mark.parametrize(
    "name", ["given/../secret.ndjson", "given/*.ndjson", "given", "", "-", "s3://x/y", "%00"]
)
def test_other_spellings_of_files_are_refused(
    name: str, given: Path, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = name if "/" not in name or ":" in name else f"{tmp_path}/{name}"
    data = task_file(deal({"kind": "file", "name": whole, **KNOWN}))
    said = refused(tmp_path / "lake", data, given, capsys)
    assert "which this worker was not given" in said


def test_a_glob_of_the_command_line_gives_what_it_finds_and_nothing_else(
    given: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = OwnInputs(("given/*.ndjson",))
    assert own.file(named(given)) == given
    later = given.with_name("b\udcff.ndjson")  # written after the first look, its name no UTF-8
    later.touch()
    assert own.file(named(later)) == later
    with pytest.raises(LakeError, match="was not given"):
        own.file(named(secret))


@pytest.mark.parametrize(
    "name", ["../../../secret.ndjson", "/etc/passwd", "a/../../x", "link", ".hidden", "", "a//b", "a\nb"]
)
def test_names_that_lead_out_of_the_stage_are_refused(
    name: str, given: Path, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of copies of standard input, of streams to stitch, and of parts of windows."""
    window = {"start_ns": 0, "length_ns": 1, "nbytes": 1, "file": name, "start": 0}
    tasks: tuple[dict[str, Any], ...] = (
        deal({"kind": "staged", "name": name, **KNOWN}),
        {"kind": "stitch_group", "streams": [name], "part": 0, "absurd_days": []},
        {"kind": "write_window_files", "windows": [{"number": 0, "parts": [window]}], "absurd_days": []},
    )
    for task in tasks:
        lake = tmp_path / task["kind"]
        scratch = lake / "stage" / "scratch" / TOKEN
        scratch.mkdir(parents=True)
        (scratch / "link").symlink_to(secret)
        queue = lake / f"{STAGE}job-a"
        assert worker(lake, task_file(task), given) == 2
        said = capsys.readouterr().err.strip()
        assert "which is not on the stage of its import" in said
        assert "\n" not in said
        left = sorted(path.name for path in queue.iterdir() if path.is_file())
        assert left == ["claim-000000", "task-000000"]


def test_a_scratch_folder_that_is_a_link_is_refused(
    given: Path, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    (lake / "stage" / "scratch").mkdir(parents=True)
    (lake / "stage" / "scratch" / TOKEN).symlink_to(tmp_path)
    data = task_file(deal({"kind": "staged", "name": "secret.ndjson", **KNOWN}))
    assert worker(lake, data, given) == 2
    assert "which is not on the stage of its import" in capsys.readouterr().err


def topic(**other: Any) -> dict[str, Any]:
    part = {"kind": "topic", "argument": 1, "topic": "spans", "partition": 0, "start": 0, "end": 9}
    return {**part, "cluster_id": None, "topic_id": None, **other}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"servers": ["127.0.0.1:PORT"]}, "servers"),
        ({"argument": 0}, "was not given"),
        ({"argument": 7}, "was not given"),
        ({"argument": -1}, "argument"),
        ({"topic": "secrets"}, "was not given"),
        ({"partition": 1}, "was not given"),
        ({"start": 0, "end": 200}, "was not given"),
        ({"start": 5, "end": 5}, "was not given"),
    ],
)
def test_a_part_of_a_topic_that_was_not_given_is_refused(
    other: dict[str, Any],
    told: str,
    given: Path,
    tmp_path: Path,
    broker: socket.socket,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody is called: neither the broker of the command line nor one that the task names."""
    server = f"127.0.0.1:{broker.getsockname()[1]}"
    data = task_file(deal(topic(**other))).replace(b"127.0.0.1:PORT", server.encode())
    argument = f"kafka://{server}/spans/0@0:100"
    assert told in refused(tmp_path / "lake", data, given, capsys, argument)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\x80\x04\x95.",
        task_file({"kind": "write_report", "x": 1}),
        task_file(deal({"kind": "file", "name": "a", **KNOWN}, more=1)),
        task_file({"kind": "stitch_group", "streams": ["x"], "part": -1, "absurd_days": []}),
        task_file(deal({"kind": "file", "name": "a", **KNOWN}, decoders=10**6)),
        task_file({"kind": "stitch_group", "streams": [], "part": 0, "absurd_days": []}, scratch="../x"),
        task_file({"kind": "stitch_group", "streams": [], "part": 0, "absurd_days": []}, scratch=None),
        task_file({"kind": "stitch_group", "streams": [], "part": 0, "absurd_days": []}, call="os.system"),
    ],
)
def test_what_is_no_task_is_refused(
    data: bytes, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(tmp_path / "lake", data, given, capsys)


def test_a_task_larger_than_any_is_not_read(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stitch.drivers.sharded.work_queue._TASK_BYTES", 1000)
    data = task_file({"kind": "stitch_group", "streams": ["x"] * 1000, "part": 0, "absurd_days": []})
    assert "more than any that flowdiff writes" in refused(tmp_path / "lake", data, given, capsys)


def test_a_stream_that_is_none_is_a_result(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies on the stage may be read; worker 0 hears that it is broken."""
    lake = tmp_path / "lake"
    write_native(tmp_path / "first.ndjson", 30, seed=2, seconds=300)
    with pytest.raises(SystemExit):
        main(["import", str(tmp_path / "first.ndjson"), "--lake", str(lake)])
    scratch = lake / "stage" / "scratch" / TOKEN
    scratch.mkdir(parents=True)
    (scratch / "broken").write_bytes(b"no stream at all" * 9)
    queue = lake / f"{STAGE}job-a"
    queue.mkdir(parents=True)
    task = {"kind": "stitch_group", "streams": ["broken"], "part": 0, "absurd_days": []}
    (queue / "task-000000").write_bytes(task_file(task))
    from stitch.drivers.sharded.work_queue import QueueWorker, _Queue

    own = QueueWorker(str(lake), 1, OwnInputs(()), SETTINGS.named())
    assert _Queue(open_store(str(lake)), f"{STAGE}job-a", own).do_next()
    failed = json.loads((queue / "result-000000").read_text())["result"]
    assert failed["kind"] == "failed"
    assert "is not what a task wrote" in failed["message"]


@pytest.fixture(params=["folder", "bucket"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Workplace:
    lake = str(tmp_path / "lake") if request.param == "folder" else "s3://lakes/lake"
    exchange: Exchange = (
        SharedFolder(tmp_path / "lake" / "stage" / "scratch" / TOKEN)
        if request.param == "folder"
        else RemoteStage(lake, STAGE)
    )
    return Workplace(Job(lake, 0, 1, STAGE, exchange, SETTINGS, (7,)), OwnInputs(("in/*",)))


def handed(at: Workplace, name: str) -> Any:
    exchange = at.job.exchange
    if isinstance(exchange, SharedFolder):
        return exchange.path / name
    return StoredFile(at.job.lake, f"{STAGE}{name}")


def published(stage: str = f"{STAGE}{TOKEN}/flows-20260101T0000Z-00000.parquet", **other: Any) -> Publish:
    item = {
        "table": "flows",
        "window": "20260101T0000Z",
        "stage": stage,
        "final": "flows/window=20260101T0000Z/0-000000000001-00000.parquet",
        "sha256": "0" * 64,
        "size": 5,
        "rows": 1,
        "footer_size": 1,
        "footer_sha256": "0" * 64,
    }
    return Publish.model_validate({**item, **other})


def test_results_come_back_as_they_were(at: Workplace) -> None:
    file, other = handed(at, f"{TOKEN}/00000-05.arrows"), handed(at, f"{TOKEN}/00001-06.arrows")
    counts = FileCounts(5, DaysSeen.of({-1: 2, 20_000: 3}, {20_001: 1}), Counter(cut=1), ("empty", "why"))
    dealt = Dealt([0] * (FANOUT - 1) + [9], [[] for _ in range(FANOUT - 1)] + [[file, other]], [file], 4)
    of_file = FileDealt(counts, dealt, other, [Counter({"bad-id": 2})])
    again = through(at, "deal_file", of_file)
    assert again.counts.days.counts() == counts.days.counts()
    again.counts.days = counts.days
    assert again == of_file
    letters = [Reject(Reason.BAD_ID, "d", raw, 1, 2, "", -1) for raw in (None, b"", b"\x00\xff=\n")]
    left = [LeftPart(Window(300 * 10**9, 300 * 10**9), 9, file, 17)]
    outcome = GroupOutcome(SETTINGS.max_dead_letters_per_file, Counter(flows=2), letters, Counter({"x": 3}))
    outcome.starts_ns, outcome.left = {-5, 10**18}, left
    assert through(at, "stitch_group", (outcome, (published(),))) == (outcome, (published(),))
    assert through(at, "write_window_files", (published(),)) == (published(),)
    failed = ResultFile(result=TaskFailed.of(InputError("no.", remedy="yes."))).model_dump_json().encode()
    with pytest.raises(InputError, match=r"no\. yes\. \[input\]"):
        read_result(failed, "deal_file", at)


def through(at: Workplace, task: str, returned: Any) -> Any:
    return read_result(result_of(task, returned, at).model_dump_json().encode(), task, at)


def test_tasks_come_back_as_they_were(at: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b").touch()
    file = handed(at, f"{TOKEN}/00000-05.arrows")
    source = Source(str(tmp_path / "in" / "a b"), tmp_path / "in" / "a b", "0" * 64, 5, 7)
    group = Group(paths=[file])
    parts = [(3, [LeftPart(Window(0, 60 * 10**9), 9, file, 17)])]
    for name, given in (
        ("deal_file", (source, 1)),
        ("stitch_group", (group, 2)),
        ("write_window_files", (parts,)),
    ):
        task = TASKS[name].of(at, *given)
        assert TASKS[name].model_validate_json(task.model_dump_json()).arguments(at) == (at.job, *given)


@pytest.mark.parametrize(
    "other",
    [
        {"stage": "flows/window=20260101T0000Z/0-000000000001-00000.parquet"},
        {"stage": f"{STAGE}{TOKEN}/../../x-1.parquet"},
        {"final": "flows/window=20260101T0000Z/1-000000000001-00000.parquet"},
        {"final": "flows/window=20260101T0000Z/0-000000000002-00000.parquet"},
        {"final": "params/window=20260101T0000Z/0-000000000001-00000.parquet"},
        {"window": "99999999T9999Z", "final": "flows/window=99999999T9999Z/0-000000000001-00000.parquet"},
        {"table": "reports", "window": None, "final": "reports/0-000000000001-00000.parquet"},
        {"table": "late", "final": "late/0-000000000001-00000.parquet"},
    ],
)
def test_a_result_publishes_files_of_its_import_only(at: Workplace, other: dict[str, Any]) -> None:
    with pytest.raises(LakeError, match="not on the stage"):
        through(at, "write_window_files", (published(**other),))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../../x"])
def test_a_result_names_files_of_the_stage_only(at: Workplace, name: str) -> None:
    """Worker 0 would read it, and remove it."""
    result = {
        "kind": "stitch_group",
        "totals": {},
        "rejects": [],
        "refused": {},
        "starts_ns": [],
        "left": [{"start_ns": 0, "length_ns": 1, "nbytes": 1, "file": name, "start": 0}],
        "files": [],
    }
    with pytest.raises(LakeError, match="not on the stage"):
        read_result(json.dumps({"result": result}).encode(), "stitch_group", at)
    with pytest.raises(LakeError, match="its task is 'deal_file'"):
        read_result(json.dumps({"result": result}).encode(), "deal_file", at)
    with pytest.raises(LakeError, match="not what flowdiff writes"):
        read_result(pickle.dumps(result), "deal_file", at)


def test_standard_input_goes_by_way_of_a_bucket(
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    given: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Worker 0 alone has it: the others find its copy on the stage."""
    import io
    import sys
    from concurrent.futures import ThreadPoolExecutor

    from stitch.drivers.sharded.work_queue import JobWorker, _Leader

    lake = bucket_server.new_lake()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.read_bytes())))
    monkeypatch.setattr(_Leader, "_work", lambda leader: leader._over.wait())
    worker = JobWorker(lake, "a", 1, 2, OwnInputs(("-",)), SETTINGS, poll_s=0.05)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(worker.work)
        with pytest.raises(SystemExit) as ended:
            main(["import", "-", "--lake", lake, "--memory", "64MB", "--job", "a", "--worker", "0/2"])
        assert ended.value.code == 0
        assert working.result(60)
    assert open_store(lake).names("flows")
