"""Of a lake with everything in it no file can be harmed or lost without a word of `flowdiff fsck`."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, requests
from oracles.traffic import write_native

from analyze.report.store import JSON_FILE
from flowdiff.__main__ import main
from schemas.windows import NS_PER_SECOND
from stitch.lake import chain
from stitch.lake.fsck import check
from stitch.lake.layout import LAKE_FILE, REPORT_END, lane_folder
from stitch.lake.store import LocalStore
from stitch.lake.sums import SUMS, sums_name, write_sums

pytestmark = pytest.mark.usefixtures("encoded_once")
HOUR_NS = 3600 * NS_PER_SECOND
REPORT = {"findings.parquet": b"some rows", "report.json": b"{}"}


@pytest.fixture(scope="module")
def world() -> World:
    """A live lake with kept segments, checkpoints, dead letters, a late event that waits and a report."""
    late = Sent(START_NS + 150 * NS_PER_SECOND, 0, late_record())
    bad = Sent(START_NS + NS_PER_SECOND, 1, b"no record")
    sent = sorted([*requests(12, 2, 160), late, bad], key=lambda message: message.at_ns)
    waits = {"keep_events_ns": HOUR_NS, "rebuild_share": 10.0, "rebuild_ns": HOUR_NS}
    made = World(sent, settings=SETTINGS.model_copy(update=waits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "CHECKPOINT_EVERY", 3)
        made.start("process")
        for _ in made.turns("process"):
            pass
        made.processes["process"].stop()
    sums = write_sums(REPORT)
    for name, data in {**REPORT, sums_name(sums): sums}.items():
        made.store.put(f"reports/abc/{name}", data)
    return made


def late_record() -> bytes:
    told = {
        "breadcrumb": "b0",
        "request_id": "r0",
        "ts": START_NS + 1,
        "component": "web",
        "point": "forgotten",
    }
    return str(told).replace("'", '"').encode()


def files(world: World) -> list[str]:
    return sorted(name for name, node in world.disk._seen.items() if node.data is not None)


def harmed(world: World, name: str, data: bytes | None) -> LocalStore:
    """The lake with a file gone, or with other content."""
    disk = deepcopy(world.disk)
    disk.remove(name)
    if data is not None:
        disk.create(name, data)
    return LocalStore(disk)


def test_a_file_that_is_harmed_is_a_finding(world: World) -> None:
    assert check(world.store) == []
    names = [name for name in files(world) if name != LAKE_FILE]  # anything may have made a lake
    for part in ("flows/", "dead_letters/", "control/segments/", "-inputs-", "-files-", "reports/"):
        assert any(part in name for name in names), part
    for name in names:
        data = world.store.read(name).to_pybytes()
        for other in (
            data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
            b"",
        ):
            found = check(harmed(world, name, other))
            assert found, name


def test_a_file_that_is_lost_is_a_finding_but_where_it_may_be_swept(world: World) -> None:
    silent = {name for name in files(world) if not check(harmed(world, name, None))}
    # Nobody has to keep these; and the last commit of a lane that published nothing leaves no trace.
    assert {name.rpartition("/")[0].rpartition("/")[0] for name in silent} <= {
        "control/checkpoints",
        "control/commits",
        "reports",
    }
    assert {name for name in silent if name.startswith("reports")} == {
        f"reports/abc/{REPORT_END}"
    }  # none left
    last = {f"{lane_folder(lane)}/{world.store.names(lane_folder(lane))[-1]}" for lane in (1, 2)}
    assert {name for name in silent if name.startswith("control/commits")} <= last


def test_what_was_written_past_the_end_of_a_chain_is_a_finding(world: World) -> None:
    commits = world.store.names(lane_folder(1))
    disk = deepcopy(world.disk)
    for name in commits[len(commits) // 2 :]:
        disk.remove(f"{lane_folder(1)}/{name}")
    for folder in ("control/checkpoints/lane=1", "flows", "structures", "dead_letters", "late"):
        disk.remove(folder)
    told = [finding.detail for finding in check(LocalStore(disk))]
    assert any("was written for a commit that is lost: lane 1 ends at" in detail for detail in told), told


def test_readers_refuse_a_lake_that_lost_its_last_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        write_native(tmp_path / f"{number}.ndjson", 30, seed=number, id_base=100 * number)
        run("import", str(tmp_path / f"{number}.ndjson"), "--lake", str(tmp_path / "lake"))
    (tmp_path / "lake" / lane_folder(0) / "000000000002.json").unlink()
    capsys.readouterr()
    for arguments in (("windows",), ("sql", "-c", "select count(*) from requests"), ("categories",)):
        assert run(*arguments, "--lake", str(tmp_path / "lake")) == 2
        told = capsys.readouterr().err
        assert "belongs to a commit that the chain does not have: lane 0 ends at 1" in told
        assert told.count("\n") == 1


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_who_reads_a_lost_table_of_a_report_hears_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    write_native(tmp_path / "a.ndjson", 30)
    run("import", str(tmp_path / "a.ndjson"), "--lake", str(lake))
    (lake / "reports" / "abc").mkdir(parents=True)
    (lake / "reports" / "abc" / SUMS).write_bytes(write_sums(REPORT))
    (lake / "reports" / "abc" / JSON_FILE).touch()
    assert run("sql", "-c", "select count(*) from requests", "--lake", str(lake)) == 0
    capsys.readouterr()
    assert run("sql", "-c", "select count(*) from findings", "--lake", str(lake)) == 2
    assert "reports/abc/findings.parquet' cannot be read" in capsys.readouterr().err
