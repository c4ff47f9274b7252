"""Files of windows that left the lake: what no reader would see is refused, and told."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from oracles.lake_script import content
from oracles.quiet_import import Quiet

from flowdiff.__main__ import main
from schemas.errors import InputError
from schemas.windows import NS_PER_DAY, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings, ImportSummary
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

NOW_NS = 20_000 * NS_PER_DAY
KEEP_NS = 10 * NS_PER_DAY


def put(lake: Path, *files: Path) -> ImportSummary:
    settings = ImportSettings(any_time=True)
    names = [str(file) for file in files]
    summary = import_into(
        lake, names, settings, owner="t", created_by="t", stdin=io.BytesIO(), progress=Quiet()
    )
    assert check(LocalStore.at(lake)) == []
    return summary


def written(file: Path, requests: Iterable[tuple[str, int]], **more: object) -> Path:
    """A record each: request, and how long before now."""
    told = [
        {"request_id": name, "breadcrumb": name, "ts": NOW_NS - age, "component": "a", "point": "b"} | more
        for name, age in requests
    ]
    file.write_text("\n".join(map(json.dumps, told)) + "\n")
    return file


def kept_lake(folder: Path) -> Path:
    """A lake of which all is retired that is older than ten days."""
    lake = folder / "lake"
    put(lake, written(folder / "new", [(f"n{k}", k * NS_PER_SECOND) for k in range(5)]))
    put(lake, written(folder / "mid", [(f"m{k}", 20 * NS_PER_DAY + k) for k in range(5)]))
    store = LocalStore.at(lake)
    retire(UpkeepRun(store, "L", NOW_NS, 0, "t", "t"), keep_ns=KEEP_NS)
    return lake


def request_ids(lake: Path) -> set[str]:
    manifest = open_manifest(LocalStore.at(lake))
    return {
        name
        for file in manifest.files("flows")
        for name in decode("flows", manifest.read(file))["request_id"].to_pylist()
    }


def test_a_file_of_retired_windows_is_refused_each_time(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    before = content(LocalStore.at(lake))
    older = written(tmp_path / "older", [(f"o{k}", 40 * NS_PER_DAY + k) for k in range(50)])
    for _ in range(2):
        with pytest.raises(InputError, match="retired from this lake"):
            put(lake, older)
        assert content(LocalStore.at(lake)) == before
    # A lake of its own takes it.
    assert put(tmp_path / "other", older).counters.flows == 50


def test_of_a_mixed_file_what_is_retired_becomes_dead_letters(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    some = [("young", 60 * NS_PER_SECOND), ("old", 40 * NS_PER_DAY), ("old", 40 * NS_PER_DAY - 1)]
    # A request that began in a retired window is refused whole; one that begins behind it is taken whole.
    edge = (20 * NS_PER_DAY // (300 * NS_PER_SECOND)) * 300 * NS_PER_SECOND
    assert open_manifest(LocalStore.at(lake)).retired_to_ns == NOW_NS - edge + 300 * NS_PER_SECOND
    edge -= 300 * NS_PER_SECOND
    some += [("across", edge + 1), ("across", edge - 1), ("behind", edge), ("behind", edge - 1)]
    summary = put(lake, written(tmp_path / "some", some))
    assert summary.counters.balanced
    assert summary.counters.rejects == {"retired": 4}
    assert (summary.counters.flows, summary.counters.events_read) == (2, 7)
    assert request_ids(lake) == {"young", "behind", *(f"n{k}" for k in range(5))}
    manifest = open_manifest(LocalStore.at(lake))
    letters = [decode("dead_letters", manifest.read(file)) for file in manifest.files("dead_letters")]
    assert {row["reason"] for table in letters for row in table.to_pylist()} == {"retired"}
    assert put(lake, tmp_path / "some").commit is None


def test_records_without_request_ids_are_refused_with_their_request(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    loose = written(tmp_path / "loose", [("x", 40 * NS_PER_DAY), ("y", NS_PER_SECOND)], request_id=None)
    summary = put(lake, loose)
    assert (summary.counters.flows, summary.counters.rejects) == (1, {"retired": 1})


def test_the_summary_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = kept_lake(tmp_path)
    some = written(tmp_path / "some", [("young", 1), ("old", 40 * NS_PER_DAY)])
    with pytest.raises(SystemExit):
        main(["import", "--any-time", "--lake", str(lake), str(some)])
    told = capsys.readouterr().out
    assert "rejected: retired" in told
    assert "1 refused: their requests began in windows that were retired from this lake" in told
    older = written(tmp_path / "older", [("o", 40 * NS_PER_DAY)])
    with pytest.raises(SystemExit) as ended:
        main(["import", "--lake", str(lake), str(older)])
    shown = capsys.readouterr().err
    assert (ended.value.code, shown.count("\n")) == (2, 1)
    assert "retired" in shown
