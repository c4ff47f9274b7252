"""A lake in a bucket of a real S3 server, from import to report, as a user runs it; and what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracles import fork_server
from oracles.bucket_server import KEYS, BucketServer
from oracles.sample_profiles import sample_profile

from analyze.profile.stored import ProfileTally
from analyze.refine.settings import RefineSettings
from analyze.scope import Lakes, refuse_overlap, resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import main
from schemas.errors import TRY_AGAIN, LakeError, PeriodError, UnreachableError
from schemas.periods import parse_period
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store

PERIODS = ("--reference", "2022-08-23T16:55/10m", "--problem", "2022-08-23T15:10/5m", "--method", "paper")


def run(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.fixture(scope="module")
def folder(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lake on this machine."""
    lake = tmp_path_factory.mktemp("local") / "shop"
    assert run("import", str(shared_data / "online-boutique" / "*.jsonl.gz"), "--lake", str(lake)) == 0
    return lake


@pytest.fixture(scope="module")
def lake(shared_data: Path, bucket_server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Imported by a process of its own, as the first thing in the bucket."""
    name = bucket_server.new_lake()
    traces = sorted(map(str, (shared_data / "online-boutique").glob("*.jsonl.gz")))
    home = tmp_path_factory.mktemp("home")
    told = {**os.environ, **bucket_server.environ, "HOME": str(home), "FLOWDIFF_CACHE": str(home / "c")}
    command = [sys.executable, "-m", "flowdiff", "import", *traces, "--lake", name, "--json"]
    done = fork_server.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counters"]["flows"] > 1_000
    assert [*(home / "c" / "sessions").iterdir()] == [], "a process leaves no session behind"
    return name


def test_a_bucket_holds_what_a_folder_does(
    lake: str, folder: Path, bucket_environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = (
        manifest.listed.whole(manifest.listing).drop_columns(["seq"])
        for manifest in (open_manifest(open_store(name)) for name in (lake, str(folder)))
    )
    assert mine.sort_by("name").equals(theirs.sort_by("name"))
    assert run("fsck", lake) == 0
    capsys.readouterr()
    for command in (
        ["windows"],
        ["categories"],
        ["sql", "-c", "select count(*), max(offset_us) from nodes"],
    ):
        assert run(*command, "--lake", lake) == run(*command, "--lake", str(folder)) == 0
        out = capsys.readouterr().out
        assert out[: len(out) // 2] == out[len(out) // 2 :]


def test_a_comparison_is_the_same_and_kept_in_the_bucket(
    lake: str,
    folder: Path,
    bucket_environ: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reports = {}
    for name in (lake, str(folder)):
        assert run("compare", "--lake", name, *PERIODS, "--json", str(tmp_path / "r.json")) == 1
        reports[name] = json.loads((tmp_path / "r.json").read_text())
    assert reports[lake] == reports[str(folder)]
    told = capsys.readouterr().out
    page = f"{lake}/reports/{reports[lake]['id']}/report.html"
    assert f"Report: {page}" in told
    store = open_store(lake)
    kept = store.names(f"reports/{reports[lake]['id']}")
    assert kept == sorted(path.name for path in (folder / "reports" / reports[lake]["id"]).iterdir())
    assert json.loads(store.read(f"reports/{reports[lake]['id']}/report.json").to_pybytes()) == reports[lake]
    assert run("export", "--lake", lake, "--report", reports[lake]["id"], "--format", "native") == 0
    assert run("fsck", lake) == 0
    # A report that is half written is none.
    store.replace("reports/0half/mutations.parquet", b"half", "stage")
    asked = "select count(*), count(distinct report) from mutations"
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=lake)) as session:
        in_bucket = session.query(asked)
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(folder))) as session:
        assert session.query(asked).equals(in_bucket)
    store.remove("reports/0half")


def test_statistics_are_kept_in_the_bucket(
    lake: str, bucket_environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("summarize", "--lake", lake) == 0
    made = capsys.readouterr().out
    assert run("summarize", "--lake", lake) == 0
    n = len(open_store(lake).names("stats"))
    assert f"{n} worked out, 0 there already" in made
    assert f"0 worked out, {n} there already" in capsys.readouterr().out
    assert open_store(lake).names("stage") == []
    found = resolve(parse_period("all", now_ns=0), default_lake=lake)
    tally = ProfileTally()
    sample_profile([found], RefineSettings(), tally=tally)
    assert (tally.read, tally.made) == (n, 0)


def test_a_request_is_drawn_and_periods_name_buckets(
    lake: str, folder: Path, bucket_environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select request_id from requests order by 1 limit 1"
    assert run("sql", "--lake", lake, "-c", query) == 0
    request = capsys.readouterr().out.splitlines()[1].strip()
    assert run("flow", request, "--lake", lake) == run("flow", request, "--lake", str(folder)) == 0
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]
    periods = [f"{lake}@2022-08-23T16:55/10m", f"{folder}@2022-08-23T15:10/5m"]
    assert run("compare", "--reference", periods[0], "--problem", periods[1], "--no-save") == 1
    lakes = Lakes()
    parts = [lakes.find(parse_period(f"{name}@2022-08-23T15:10/5m", now_ns=0)) for name in (lake, f"{lake}/")]
    assert parts[0].root == parts[1].root
    with pytest.raises(PeriodError, match="overlap"):
        refuse_overlap(parts)


def test_readers_refuse_a_bucket_that_lost_its_last_commit(
    shared_data: Path, bucket_environ: dict[str, str], bucket_server: BucketServer
) -> None:
    """What it published is numbered past the end of the chain."""
    first, second, *_ = sorted(map(str, (shared_data / "online-boutique").glob("*.jsonl.gz")))
    other = bucket_server.new_lake()
    assert run("import", first, "--lake", other) == 0
    assert run("import", second, "--lake", other) == 0
    assert len(resolve(parse_period("all", now_ns=0), default_lake=other).windows) > 1
    open_store(other).remove("control/commits/lane=0/000000000002.json")
    with pytest.raises(LakeError, match="belongs to a commit that the chain does not have"):
        resolve(parse_period("all", now_ns=0), default_lake=other)


def test_importing_again_and_more_changes_what_it_should(
    lake: str, shared_data: Path, bucket_environ: dict[str, str], bucket_server: BucketServer
) -> None:
    """Known files bring nothing, overlapping requests are known by the copies of the lake's files."""
    first, second, *_ = sorted(map(str, (shared_data / "online-boutique").glob("*.jsonl.gz")))
    other = bucket_server.new_lake()
    assert run("import", first, "--lake", other) == 0
    assert run("import", first, second, "--lake", other) == 0
    renamed = Path(bucket_environ["HOME"]) / "again.jsonl"
    subprocess.run(f"zcat {first} | head -n 40 > {renamed}", shell=True, check=True)
    before = open_manifest(open_store(other)).windows()
    assert run("import", str(renamed), "--lake", other) == 0
    assert open_manifest(open_store(other)).windows() == before
    assert run("fsck", other) == 0


# -- copies -------------------------------------------------------------------------------------------


def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is got from the bucket from now on."""
    got: list[str] = []
    whole = BucketStore.download

    def noted(self: BucketStore, name: str, out: object) -> None:
        got.append(name)
        whole(self, name, out)  # type: ignore[arg-type]

    monkeypatch.setattr(BucketStore, "download", noted)
    return got


def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another process would begin, with the same cache."""
    from stitch.lake import copies, place

    for made in (place._opened, place._copies, copies._cache_in):
        made.cache_clear()


def test_files_are_got_once_and_only_those_that_are_read(
    lake: str, bucket_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    got = downloads(monkeypatch)
    anew(monkeypatch)
    found = resolve(parse_period("all", now_ns=0), default_lake=lake)
    assert got == []
    with open_session(found) as session:
        session.query("select count(*) from requests")
        assert {name.partition("/")[0] for name in got} == {"flows"}
        assert len(got) == len(found.flows)
        session.query("select count(*) from categories")
    n = len(got)
    assert n == len(found.flows) + len(found.structures)
    anew(monkeypatch)
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=lake)) as session:
        session.query("select count(*) from requests, categories")
    assert len(got) == n


def test_a_copy_that_rots_is_got_again_and_a_rotten_file_is_told(
    bucket_server: BucketServer,
    shared_data: Path,
    bucket_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    anew(monkeypatch)
    lake = bucket_server.new_lake()
    assert run("import", str(shared_data / "online-boutique" / "before*.gz"), "--lake", lake) == 0
    count = "select count(*) from requests"
    assert run("sql", "--lake", lake, "-c", count) == 0
    told = capsys.readouterr().out.splitlines()[-3:]
    cache = Path(bucket_environ["FLOWDIFF_CACHE"])
    for copy in cache.glob("objects/*/*"):
        data = bytearray(copy.read_bytes())
        data[len(data) // 2] ^= 1
        copy.chmod(0o600)
        copy.write_bytes(data)
    anew(monkeypatch)
    assert run("sql", "--lake", lake, "-c", count) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == told
    store = open_store(lake)
    (name, *_) = [*store.below("flows", lambda _: False)]
    data = bytearray(store.read(name).to_pybytes())
    data[len(data) // 2] ^= 1
    store.replace(name, bytes(data), "stage")
    for copy in cache.glob("objects/*/*"):
        copy.unlink()
    anew(monkeypatch)
    assert run("sql", "--lake", lake, "-c", count) == 2
    assert (
        f"'{lake}/{name}' cannot be read: its content is not what was committed." in capsys.readouterr().err
    )
    assert run("fsck", lake) == 1
    assert f"I2: '{name}' is not what was committed (sha256)" in capsys.readouterr().out
    store.remove(name)
    anew(monkeypatch)
    with pytest.raises(LakeError, match=r"of the lake's last commit is missing. Run `flowdiff fsck s3://"):
        resolve(parse_period("all", now_ns=0), default_lake=lake)


# -- errors: one line, what to do, no secret -----------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    anew(pytest.MonkeyPatch())
    assert run(*arguments) == code
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in told
    assert "wrong-secret" not in told
    return told


def test_what_is_wrong_with_a_bucket_is_told_in_a_line(
    lake: str,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "there is no such bucket. Make it" in refused(capsys, "windows", "--lake", "s3://not-there/x")
    assert "flowdiff.json is missing" in refused(capsys, "windows", "--lake", f"{lake}-other")
    assert "names no lake in a bucket" in refused(capsys, "fsck", "s3://x/../y")
    assert "--open shows a file" in refused(capsys, "compare", "--lake", lake, *PERIODS, "--open")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("stitch.lake.bucket.bucket_store.READ_RETRIES", 0)
    for command in (("fsck", lake), ("windows", "--lake", lake), ("import", __file__, "--lake", lake)):
        told = refused(capsys, *command, code=TRY_AGAIN)
        assert "there is no connection to the store. Check AWS_ENDPOINT_URL" in told
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket_server.endpoint)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "There are no credentials for the bucket. Set AWS_ACCESS" in refused(
        capsys, "windows", "--lake", lake
    )


@pytest.mark.parametrize(
    ("call", "command"),
    [
        ("read", ("windows", "--lake", "{lake}")),
        ("download", ("import", "{lake}/flowdiff.json", "--lake", "{folder}")),
    ],
)
def test_a_store_that_goes_away_behind_the_opening_may_answer_in_a_moment(
    call: str,
    command: tuple[str, ...],
    lake: str,
    tmp_path: Path,
    bucket_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def away(*_: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "there is no connection to the store", lake)

    monkeypatch.setattr(BucketStore, call, away)
    words = [word.format(lake=lake, folder=tmp_path / "lake") for word in command]
    told = refused(capsys, *words, code=TRY_AGAIN)
    assert "there is no connection to the store" in told
    assert "fsck" not in told
    assert "Check the path" not in told


@pytest.mark.parametrize(("call", "table"), [("download", "requests"), ("listed", "findings")])
def test_a_query_whose_store_goes_away_may_be_asked_again(
    call: str, table: str, lake: str, bucket_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "there is no connection to the store", lake)

    anew(monkeypatch)
    found = resolve(parse_period("all", now_ns=0), default_lake=lake)
    monkeypatch.setattr(BucketStore, call, away)
    with pytest.raises(UnreachableError, match="there is no connection"), open_session(found) as session:
        session.query(f"select count(*) from {table}")


def test_wrong_keys_are_told(
    lake: str,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    with bucket_server.asking_for_keys():
        for command in (("windows", "--lake", lake), ("import", __file__, "--lake", lake), ("fsck", lake)):
            assert "cannot be opened: access is denied (40" in refused(capsys, *command)
