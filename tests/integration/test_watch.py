"""A watched lake: an incident is opened, told once and ended, however often the process dies."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from oracles import fork_server
from oracles.bucket_server import BucketServer
from oracles.command_line import command
from oracles.cutting_proxy import cutting_proxy
from oracles.incidents import Receiver, receiver
from oracles.quiet_import import Quiet
from oracles.waiting import wait_until
from oracles.watched_shop import START_NS, write_minutes

from analyze.refine.settings import RefineSettings
from analyze.watch.candidates import Decided
from analyze.watch.decide import CHANGED, Comparer, Range
from analyze.watch.lane import WatchCommit, incidents_of, last_commit, put_commit
from analyze.watch.settings import WatchSettings
from analyze.watch.watching import LakeWatch, accepted, marked
from flowdiff.commands.watch import SILENT, _Shown
from schemas.errors import TRY_AGAIN
from schemas.incidents import IncidentEvent
from schemas.periods import parse_period
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.lake.fsck import check
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore
from stitch.lake.watch_files import KEPT_COMMITS, TakenError, read_rows_of, watch_faults

SETTINGS = WatchSettings(slot_ns=15 * NS_PER_SECOND, versions="")
FAULT = range(39, 43)
GRAIN = "every" if os.environ.get("FLOWDIFF_TEST_VERSITYGW") else "kinds"
"""Deaths: around every single write in the long run, around every kind of write in every run."""
ASKS_S = 0.5
"""A test that waits for what is in a bucket asks so often: its server is a process beside the watch."""
SLOT = ("--slot", "15s", "--versions", "")


def imported(lake: Path | str, file: Path) -> None:
    import_into(
        lake,
        [str(file)],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shop")
    before, after = folder / "before.otlp.jsonl", folder / "after.otlp.jsonl"
    write_minutes(before, 0, 36)
    write_minutes(after, 36, 48, slow=FAULT)
    return before, after


@pytest.fixture(scope="module")
def before(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of what came before the fault, which nobody has watched."""
    lake = tmp_path_factory.mktemp("before") / "lake"
    imported(lake, files[0])
    return lake


@pytest.fixture(scope="module")
def begun(before: Path, files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that a watch has learned from, and in which more was sealed since."""
    lake = Path(shutil.copytree(before, tmp_path_factory.mktemp("begun") / "lake"))
    told: list[IncidentEvent] = []
    assert list(watch_of(lake, told).poll()) == []
    assert told == []
    imported(lake, files[1])
    return lake


def in_bucket(folder: Path, server: BucketServer) -> str:
    """Name of a lake of the server that has the files of a folder's."""
    lake = server.new_lake()
    store = open_store(lake)
    for path in folder.rglob("*"):
        if path.is_file():
            store.put_if_absent(path.relative_to(folder).as_posix(), path.read_bytes(), "stage")
    return lake


def watch_of(lake: Path | str, told: list[IncidentEvent], settings: WatchSettings = SETTINGS) -> LakeWatch:
    def notify(events: Sequence[IncidentEvent]) -> None:
        told.extend(events)

    watch = LakeWatch(str(lake), settings, RefineSettings(), "test", "test", notify)
    watch.resume()
    return watch


@pytest.fixture(scope="module")
def whole(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[IncidentEvent]]:
    """The lake when all is decided by one process, and what that said."""
    lake = tmp_path_factory.mktemp("whole") / "lake"
    shutil.copytree(begun, lake)
    told: list[IncidentEvent] = []
    for _ in watch_of(lake, told).poll():
        pass
    return lake, told


def test_a_fault_is_one_incident_with_its_place_its_onset_and_its_end(
    whole: tuple[Path, list[IncidentEvent]],
) -> None:
    lake, told = whole
    (incident,) = incidents_of(LocalStore.at(lake))
    assert [event.kind for event in told] == ["opened", "resolved"]
    assert (incident.component, incident.direction, incident.state) == ("cart", "worse", "resolved")
    onset = START_NS + FAULT.start * NS_PER_MINUTE
    assert abs((incident.began_from_ns + incident.began_to_ns) / 2 - onset) <= 15 * NS_PER_SECOND
    assert incident.opened_ns - onset <= 90 * NS_PER_SECOND
    assert incident.resolved_ns is not None
    assert abs(incident.resolved_ns - START_NS - FAULT.stop * NS_PER_MINUTE) <= 60 * NS_PER_SECOND
    assert incident.examples.reference
    assert incident.examples.problem
    assert (lake / "reports" / incident.report / "report.html").is_file()
    assert "cart" in incident.headline


def test_its_tables_say_the_same(whole: tuple[Path, list[IncidentEvent]]) -> None:
    lake, told = whole
    store = LocalStore.at(lake)
    assert read_rows_of(store, "incident_events")["event"].to_pylist() == [event.id for event in told]
    points = read_rows_of(store, "change_points").to_pylist()
    assert {point["incident"] for point in points if point["incident"]} == {told[0].incident_id}
    assert len(store.names("watch/commits")) == KEPT_COMMITS
    assert [*watch_faults(store)] == []
    query = ("-c", "SELECT incident, state FROM incidents")
    rows = command("sql", "--lake", str(lake), "--format", "json", *query)
    assert json.loads(rows.out) == [{"incident": told[0].incident_id, "state": "resolved"}]


@pytest.mark.parametrize(
    "gone", ["watch/incident_events", "watch/change_points", "watch/watch_runs", "watch/commits/last"]
)
def test_what_the_watch_wrote_and_is_gone_is_said(
    whole: tuple[Path, list[IncidentEvent]], tmp_path: Path, gone: str
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(whole[0], lake)
    path = lake / gone
    if path.name == "last":
        path = max(path.parent.iterdir())
        path.unlink()
    else:
        shutil.rmtree(path)
    checked = command("fsck", str(lake))
    assert checked.code == 1
    assert f"watch: '{path.relative_to(lake)}" in checked.out
    assert "is missing" in checked.out or "is not there" in checked.out
    view = {"watch/change_points": "change_points", "watch/watch_runs": "watch_runs"}.get(gone, "incidents")
    asked = command("sql", "--lake", str(lake), "-c", f"SELECT * FROM {view}")
    assert asked.code == 2
    assert "is missing" in asked.err
    if view == "incidents":
        listed = command("incidents", "--lake", str(lake))
        assert (listed.code, listed.out) == (2, "")
        assert "is missing" in listed.err


def test_marks_of_a_person_are_made_beside_a_watch_that_commits_all_the_time(
    whole: tuple[Path, list[IncidentEvent]], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(whole[0], lake)
    store, over = LocalStore.at(lake), threading.Event()

    def busy() -> None:
        while not over.is_set():
            last = last_commit(store)
            assert last is not None
            with suppress(TakenError):
                put_commit(store, last.followed_by(Decided.nothing(), owner="busy"))
            time.sleep(0.005)

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(busy) for _ in range(2)]
        try:
            for number in range(12):
                marked(str(lake), f"v{number}", START_NS, "person", "test")
        finally:
            over.set()
        for other in others:
            other.result()
    last = last_commit(store)
    assert last is not None
    texts = [rollout.version for rollout in last.versions.rollouts]
    assert [text for text in texts if text.startswith("v")] == [f"v{number}" for number in range(12)]
    assert [*watch_faults(store)] == []


def test_a_mark_that_others_are_always_ahead_of_is_to_be_tried_again(
    whole: tuple[Path, list[IncidentEvent]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(whole[0], lake)

    def ahead(_store: object, commit: WatchCommit) -> None:
        raise TakenError(f"Another watch took commit {commit.seq}.", remedy="Run the command again.")

    monkeypatch.setattr("analyze.watch.watching.put_commit", ahead)
    done = command("incidents", "--lake", str(lake), "mark", "v2")
    assert done.code == TRY_AGAIN
    assert "Another watch took commit" in done.err


def test_a_history_that_is_gone_from_the_lake_is_none(begun: Path) -> None:
    """Retention takes windows of which the watch still knows that they were ordinary."""

    def minutes(first: int, past: int) -> list[Range]:
        return [(START_NS + first * NS_PER_MINUTE, START_NS + past * NS_PER_MINUTE)]

    decide = Comparer.of(str(begun), RefineSettings())
    asked = minutes(30, 38), minutes(FAULT.start, FAULT.stop)
    found = decide(*asked, minutes(-600, -570))
    assert (found.code, found.outcome) == (CHANGED, "changed")
    assert [finding.title for finding in found.findings] == [f.title for f in decide(*asked, ()).findings]


def assert_same(one: str | Path, other: str | Path) -> None:
    mine, theirs = open_store(str(one)), open_store(str(other))
    for table in ("incident_events", "change_points"):
        assert read_rows_of(mine, table).equals(read_rows_of(theirs, table))
    last, wanted = last_commit(mine), last_commit(theirs)
    assert last is not None
    assert wanted is not None
    assert last.state.tracked == wanted.state.tracked
    assert last.state.sums == wanted.state.sums


def sent(hook: Receiver) -> list[str]:
    """Ids of the events that arrived at the webhook, in order."""
    return [json.loads(body)["id"] for headers, body in hook.requests if headers[":path"].startswith("/hook")]


def test_whatever_it_writes_or_sends_kills_it_and_the_same_is_said(
    begun: Path, whole: tuple[Path, list[IncidentEvent]], tmp_path: Path
) -> None:
    lake, ledger = tmp_path / "shop", tmp_path / "ledger"
    shutil.copytree(begun, lake)
    with receiver() as hook:
        environ = {
            "FLOWDIFF_NOTIFY_WEBHOOK_URL": hook.url,
            "FLOWDIFF_NOTIFY_ALERTMANAGER_URL": f"http://127.0.0.1:{hook.port}",
        }
        done = fork_server.run(
            [sys.executable, "-m", "oracles.dying_watch", str(ledger), GRAIN, str(lake), "--once", *SLOT],
            env={**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    deaths = ledger.read_text().splitlines()
    assert sum("send to /hook" in point for point in deaths) == 4  # both events, before and after
    assert any("send to /api/v2/alerts" in point for point in deaths)
    assert any("watch/sent" in point for point in deaths)
    assert len(deaths) >= 30
    ids = sent(hook)
    wanted = [event.id for event in whole[1]]
    assert list(dict.fromkeys(ids)) == wanted  # each, in order, and nothing under another id
    for one in wanted:  # once a life at most, and in lives that ended before it was noted as sent
        lives = len(deaths) - deaths.index(f"before send to /hook/SECRET-PATH {one}")
        assert ids.count(one) <= lives
    assert_same(lake, whole[0])
    assert check(LocalStore.at(lake)) == []


@contextmanager
def watching(lake: Path | str, log: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A process that watches until it is killed."""
    with log.open("w") as out:
        words = [sys.executable, "-m", "flowdiff", "watch", str(lake), *SLOT]
        process = fork_server.Popen(words, stdout=out, stderr=out, text=True, env={**os.environ, **environ})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_another_process_takes_over_when_the_one_that_works_is_killed(
    before: Path, files: tuple[Path, Path], whole: tuple[Path, list[IncidentEvent]], tmp_path: Path
) -> None:
    lake, one, other = tmp_path / "shop", tmp_path / "one", tmp_path / "other"
    shutil.copytree(before, lake)
    with watching(lake, one) as first:
        wait_until(lambda: last_commit(open_store(str(lake))) is not None)
        with watching(lake, other):
            wait_until(lambda: "Another process watches" in other.read_text())
            first.kill()
            first.wait()
            imported(lake, files[1])
            wait_until(lambda: "resolved" in other.read_text())
    told = [line.split()[3] for line in other.read_text().splitlines() if line.startswith("2025")]
    assert told == [event.incident_id for event in whole[1]]


def through(lake: Path | str) -> int:
    """The end of the last window that was decided."""
    last = last_commit(open_store(str(lake)))
    assert last is not None
    return last.state.through_ns


def test_of_two_processes_at_a_bucket_one_stands_by_until_the_bucket_fails_the_other(
    before: Path,
    files: tuple[Path, Path],
    whole: tuple[Path, list[IncidentEvent]],
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    tmp_path: Path,
) -> None:
    lake, one, other = in_bucket(before, bucket_server), tmp_path / "one", tmp_path / "other"
    with cutting_proxy(bucket_server.host_port) as mine, cutting_proxy(bucket_server.host_port) as theirs:
        environ = {"FLOWDIFF_WATCH_LEASE": "10s", "AWS_ENDPOINT_URL": mine.endpoint}
        with watching(lake, one, **environ):
            wait_until(lambda: last_commit(open_store(lake)) is not None, every_s=ASKS_S)
            environ["AWS_ENDPOINT_URL"] = theirs.endpoint
            with watching(lake, other, **environ):
                wait_until(lambda: "Another process watches" in other.read_text())
                theirs.asked.clear()
                wait_until(lambda: len(theirs.asked) >= 3)
                assert {path.partition("?")[0].rpartition("/shop/")[2] for path in theirs.asked} == {
                    "watch/lease"
                }
                mine.dead = True  # to the first one the bucket fails
                imported(lake, files[1])
                wait_until(lambda: through(lake) == through(whole[0]), every_s=ASKS_S)
                wait_until(lambda: "The lake cannot be reached" in one.read_text())
                mine.revive()
                wait_until(lambda: "Another process watches" in one.read_text())
    told = [line.split()[3] for line in other.read_text().splitlines() if line.startswith("2025")]
    assert told == [event.incident_id for event in whole[1]]
    assert not [line for line in one.read_text().splitlines() if line.startswith("2025")]
    assert_same(lake, whole[0])
    assert check(open_store(lake)) == []


def test_of_two_watches_of_a_bucket_one_decides_and_the_other_takes_over(
    begun: Path,
    whole: tuple[Path, list[IncidentEvent]],
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
) -> None:
    lake = in_bucket(begun, bucket_server)
    one_told, other_told = list[IncidentEvent](), list[IncidentEvent]()
    one, other = watch_of(lake, one_told), watch_of(lake, other_told)
    first = one.poll()
    for _ in range(5):
        next(first)  # behind the opening
    with pytest.raises(TakenError):
        next(other.poll())
    other.resume()  # the first one is never heard of again
    for _ in other.poll():
        pass
    with pytest.raises(TakenError):
        next(first)
    assert [event.kind for event in (*one_told, *other_told)] == ["opened", "resolved"]
    assert_same(lake, whole[0])
    assert check(open_store(lake)) == []


def test_a_replay_says_what_the_watch_said_and_keeps_nothing(
    whole: tuple[Path, list[IncidentEvent]], begun: Path
) -> None:
    before = sorted(path.name for path in begun.rglob("watch/**/*"))
    watch = LakeWatch(str(begun), SETTINGS, RefineSettings(), "test", "test")
    start = parse_period("2025-11-20T01:36:00Z/1h", now_ns=0)
    told = [event for decided in watch.replay(start) for event in decided.events]
    assert [event.id for event in told] == [event.id for event in whole[1]]
    assert sorted(path.name for path in begun.rglob("watch/**/*")) == before


@pytest.mark.parametrize("jump_s", [0, 86_400, -86_400])
def test_a_clock_that_jumps_makes_no_silence(whole: tuple[Path, list[IncidentEvent]], jump_s: int) -> None:
    watch = watch_of(whole[0], [])
    assert list(watch.poll()) == []
    assert watch.state is not None
    passed_s, wrong_s = 60, 0
    start_ns = watch.state.through_ns
    clock = SteadyClock(
        lambda: start_ns + (passed_s + wrong_s) * NS_PER_SECOND, lambda: passed_s * NS_PER_SECOND
    )
    shown = _Shown(clock)
    wrong_s = jump_s
    shown.listen(watch)
    assert shown.suspended == ""
    passed_s, wrong_s = 3600, 0  # an hour without a window is one
    shown.listen(watch)
    assert shown.suspended == SILENT


def test_an_accepted_incident_is_the_new_normal(before: Path, tmp_path: Path) -> None:
    lake, told = tmp_path / "lake", list[IncidentEvent]()
    shutil.copytree(before, lake)
    list(watch_of(lake, told).poll())
    slow = tmp_path / "slow.otlp.jsonl"
    write_minutes(slow, 36, 42, slow=range(38, 200))
    imported(lake, slow)
    list(watch_of(lake, told).poll())
    (opened,) = told
    assert accepted(str(lake), opened.incident_id[:8], "larger carts", "test", "test").note == "larger carts"
    later = tmp_path / "later.otlp.jsonl"
    write_minutes(later, 42, 60, slow=range(38, 200))
    imported(lake, later)
    told.clear()
    list(watch_of(lake, told).poll())
    assert [event.incident.state for event in told] == ["accepted"]  # said again at the start


def test_the_command_ends_with_what_it_found(begun: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(begun, lake)
    replayed = run("watch", str(lake), "--replay", "2025-11-20T01:36:00Z/1h", "--versions", "", "--json")
    assert replayed.returncode == 1
    kinds = [json.loads(line)["kind"] for line in replayed.stdout.splitlines()]
    assert kinds == ["opened", "resolved"]
    once = run("watch", str(lake), "--once", "--versions", "")
    assert once.returncode == 0  # it is over
    assert "cart" in once.stdout
    listed = command("incidents", "--lake", str(lake), "--json")
    (incident,) = json.loads(listed.out)
    shown = command("incidents", "show", incident["id"][:10], "--lake", str(lake))
    assert f"reports/{incident['report']}/report.html" in shown.out
    assert command("incidents", "accept", "0000", "--lake", str(lake)).code == 2
    assert run("watch", str(lake), "--once", "--false-alarms", "often").returncode == 2
    old = run("watch", str(lake), "--replay", "last 1h")
    assert old.returncode == 2
    assert "its windows lie in 2025-11-20T01:00Z/" in old.stderr
    shutil.rmtree(lake / "watch")
    anew = run("watch", str(lake), "--once", "--versions", "")
    assert anew.returncode == 3  # nothing is decided yet,
    assert "say what is usual; later ones are decided" in anew.stderr
    assert run("watch", str(lake), "--once", "--versions", "").returncode == 3  # and still is not


def test_a_replay_says_which_windows_it_could_not_decide(tmp_path: Path) -> None:
    lake, short = tmp_path / "lake", tmp_path / "short.ndjson"
    write_minutes(short, 0, 3, slow=range(2, 3))
    imported(lake, short)
    replayed = run("watch", str(lake), "--replay", "all")
    assert "0 incidents in 3 windows" in replayed.stdout
    assert (
        "of 3 windows could not be decided: too little came before to know what is usual" in replayed.stdout
    )


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(
        [sys.executable, "-m", "flowdiff", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
