"""Files into a lake, whole way: what is in it depends on what the files hold, and on nothing else."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracles import fork_server
from oracles.every_death import Judged, deaths
from oracles.lake_script import content
from oracles.memory_disk import MemoryDisk
from oracles.quiet_import import Quiet
from oracles.traffic import native_lines, write_native

from ingest.codecs.zipkin.zipkin_proto import ListOfSpans, SpanBodies
from ingest.decoding import DecodedBatch
from ingest.files import decode_file
from schemas.config import DecodeConfig, ParamRules
from schemas.errors import InputError, LakeError, UnknownFormatError
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import import_files, import_into
from stitch.drivers.import_settings import ImportSettings, ImportSummary
from stitch.lake.disk import LocalDisk, exclusive_lock
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

Rows = Counter[tuple[str, str, str]]


def put(
    lake: Path, *files: Path, settings: ImportSettings | None = None, stdin: bytes = b""
) -> ImportSummary:
    """Import, and check the lake as every test should."""
    summary = import_into(
        lake,
        [str(file) for file in files],
        ImportSettings() if settings is None else settings,
        owner="test",
        created_by="flowdiff test",
        stdin=io.BytesIO(stdin),
        progress=Quiet(),
    )
    assert check(LocalStore.at(lake)) == []
    assert summary.counters.balanced
    return summary


def rows(lake: Path) -> Rows:
    return content(LocalStore.at(lake))


def tree(lake: Path) -> dict[str, bytes]:
    return {
        path.relative_to(lake).as_posix(): path.read_bytes()
        for path in sorted(lake.rglob("*"))
        if path.is_file()
    }


def data_files(lake: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(lake).items() if name.split("/")[0] not in {"control", "stage"}}


@pytest.fixture(scope="session")
def boutique(shared_data: Path) -> Path:
    return shared_data / "online-boutique" / "before.otlp.jsonl.gz"


@pytest.fixture(scope="session")
def lines(boutique: Path) -> list[bytes]:
    """A quarter of the minute: 60 messages of 100 spans."""
    return gzip.decompress(boutique.read_bytes()).splitlines(keepends=True)[:60]


@pytest.mark.parametrize("rates", [[1e-310], [1e-308, 1e-308], [1e-300], [2.0**-57]])
def test_a_sampling_rate_that_nobody_samples_at_is_a_dead_letter(tmp_path: Path, rates: list[float]) -> None:
    """Sums of such weights are infinite, or those of weights times nanoseconds."""
    source, told = tmp_path / "a.ndjson", {"ts": 1_700_000_000 * 10**9, "component": "c", "kind": "end"}
    lines = [
        json.dumps({**told, "breadcrumb": f"b{n}", "request_id": f"r{n}", "point": "p", "sample_rate": rate})
        for n, rate in enumerate([*rates, 2.0**-56, 2.0**-56])
    ]
    source.write_text("\n".join(lines))
    counters = put(tmp_path / "lake", source).counters
    assert counters.rejects == {"bad-value": len(rates)}
    assert counters.flows == 2


def test_a_real_minute_is_imported_whole(boutique: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    summary = put(lake, boutique)
    assert (summary.counters.events_read, summary.counters.flows) == (22_969, 502)
    assert summary.counters.rejects == {}
    manifest = open_manifest(LocalStore.at(lake))
    assert [w.window.name for w in manifest.windows()] == ["20220823T1655Z", "20220823T1700Z"]
    assert sum(w.flows for w in manifest.windows()) == 502
    for file in manifest.files("flows"):
        flows = decode("flows", LocalStore.at(lake).read(file.name))
        assert file.window is not None
        starts = flows["start_ns"].to_pylist()
        assert all(file.window.start_ns <= start < file.window.end_ns for start in starts)
        order = flows.select(["root", "category", "start_ns", "request_id"]).to_pylist()
        assert order == sorted(order, key=lambda row: tuple(row.values()))
    spans = sum(file.rows for file in manifest.files("structures"))
    assert 10 <= spans <= 60


def test_the_same_file_again_changes_nothing(boutique: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    put(lake, boutique)
    before = tree(lake)
    renamed = tmp_path / "other-name.gz"
    shutil.copy(boutique, renamed)
    summary = put(lake, renamed, boutique)
    assert summary.commit is None
    assert summary.files_known == (str(renamed), str(boutique))
    assert tree(lake) == before


def test_order_cut_and_repetition_of_files_do_not_show(lines: list[bytes], tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(lines))
    put(tmp_path / "one", whole)
    shuffled = random.Random(5).sample(lines, len(lines))
    parts = []
    for number in range(4):
        part = tmp_path / f"part-{number}.jsonl.gz"
        repeated = shuffled[number * 15 : number * 15 + 25]  # ten lines of each also lie in the next
        part.write_bytes(gzip.compress(b"".join(repeated)))
        parts.append(part)
    put(tmp_path / "many", *parts)
    put(tmp_path / "backwards", *reversed(parts))
    assert rows(tmp_path / "one") == rows(tmp_path / "many")
    assert data_files(tmp_path / "one") == data_files(tmp_path / "many") == data_files(tmp_path / "backwards")


def test_a_small_memory_budget_changes_files_but_no_row(tmp_path: Path) -> None:
    file = tmp_path / "records.ndjson"
    n_events = write_native(file, 3_500)
    big = put(tmp_path / "big", file)
    small = put(tmp_path / "small", file, settings=ImportSettings(memory_bytes=64 * 2**20))
    assert (big.spilled, small.spilled) == (False, True)
    assert big.counters == small.counters
    assert big.counters.events_read == n_events
    assert big.counters.flows == 3_500
    one, many = rows(tmp_path / "big"), rows(tmp_path / "small")
    assert {key for key in one if key[0] == "structures"} == {key for key in many if key[0] == "structures"}
    assert [n for key, n in (one - many).items() if key[0] != "structures"] == []
    assert [n for key, n in (many - one).items() if key[0] != "structures"] == []
    assert list((tmp_path / "small" / "stage").rglob("*.arrows")) == []


def test_requests_that_are_there_already_are_not_doubled(lines: list[bytes], tmp_path: Path) -> None:
    first, second, later = (tmp_path / name for name in ("first.jsonl", "second.jsonl", "later.jsonl"))
    first.write_bytes(b"".join(lines[:40]))
    second.write_bytes(b"".join(lines))
    later.write_bytes(b"".join(reversed(lines)))
    lake = tmp_path / "lake"
    put(lake, first)
    before = rows(lake)
    summary = put(lake, second)
    counters = summary.counters
    assert counters.flows_duplicate > 50
    assert counters.flows_late > 0, "some requests were cut by the end of the first file"
    assert counters.flows > 0
    after = rows(lake)
    assert before - after == Counter()
    late = sum(n for (table, _, _), n in after.items() if table == "late")
    assert late == counters.events_late > 0
    again = put(lake, later).counters
    assert (again.flows, again.flows_duplicate) == (0, counters.flows + counters.flows_duplicate)
    assert again.flows_late == counters.flows_late


def test_records_without_request_ids_are_put_together(tmp_path: Path) -> None:
    with_ids, without = tmp_path / "with.ndjson", tmp_path / "without.ndjson"
    records = [json.loads(line) for line in native_lines(50)]
    with_ids.write_text("".join(json.dumps(record) + "\n" for record in records))
    for record in records:
        del record["request_id"]
    without.write_text("".join(json.dumps(record) + "\n" for record in records))
    put(tmp_path / "a", with_ids)
    put(tmp_path / "b", without)

    def shapes(lake: Path) -> Counter[str]:
        disk = LocalStore.at(lake)
        flows = [
            decode("flows", disk.read(file.name)).drop_columns("request_id")
            for file in open_manifest(disk).files("flows")
        ]
        return Counter(repr(row) for table in flows for row in table.to_pylist())

    assert shapes(tmp_path / "a") == shapes(tmp_path / "b")


def test_garbage_becomes_dead_letters_and_costs_no_neighbour(tmp_path: Path) -> None:
    good = list(native_lines(20))
    file = tmp_path / "mixed.ndjson"
    file.write_text("\n".join([*good[:100], '{"broken', '{"breadcrumb":"x"}', *good[100:]]) + "\n")
    summary = put(tmp_path / "lake", file)
    assert summary.counters.events_read == len(good)
    assert summary.counters.flows == 20
    assert sum(summary.counters.rejects.values()) == 2
    manifest = open_manifest(LocalStore.at(tmp_path / "lake"))
    (letters,) = [
        decode(f.table, LocalStore.at(tmp_path / "lake").read(f.name)) for f in manifest.files("dead_letters")
    ]
    assert letters["source"].to_pylist() == [str(file)] * 2
    assert b'{"broken' in letters["raw"].to_pylist()


def test_standard_input_and_hurtful_names(tmp_path: Path) -> None:
    text = "\n".join(native_lines(5)).replace("nfs", "../../x<script>").encode()
    summary = put(tmp_path / "lake", Path("-"), stdin=text)
    assert summary.files_imported == ("-",)
    assert summary.counters.flows == 5
    names = [name for name in tree(tmp_path / "lake") if not name.startswith("control")]
    assert not any("script" in name for name in names)
    assert put(tmp_path / "lake", Path("-"), stdin=text).commit is None


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    text = "\n".join(native_lines(5)).encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as other:
        other.submit(pipe.write_bytes, text)
        assert put(tmp_path / "lake", pipe).counters.flows == 5


def test_a_share_of_requests_keeps_its_parameters(tmp_path: Path) -> None:
    file = tmp_path / "records.ndjson"
    write_native(file, 400)
    put(tmp_path / "all", file)
    put(tmp_path / "some", file, settings=ImportSettings(params_share=0.3))
    put(
        tmp_path / "none",
        file,
        settings=ImportSettings(decode=DecodeConfig(params=ParamRules(deny=("size", "op", "block")))),
    )
    every, some, none = (
        {key for key in rows(tmp_path / name) if key[0] == "params"} for name in ("all", "some", "none")
    )
    requests = {row.split("'")[3] for _, _, row in some}
    assert 60 < len(requests) < 180
    assert some == {key for key in every if key[2].split("'")[3] in requests}
    assert not none


def test_what_cannot_be_imported_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    lake, good, odd = tmp_path / "lake", tmp_path / "good.ndjson", tmp_path / "odd.bin"
    write_native(good, 5)
    odd.write_bytes(bytes(range(256)) * 10)
    put(lake, good)
    before = tree(lake)
    with pytest.raises(UnknownFormatError, match=r"odd\.bin"):
        put(lake, good, odd)
    with pytest.raises(InputError, match="missing"):
        put(lake, tmp_path / "missing")
    with pytest.raises(LakeError, match="windows of 300 s"):
        put(lake, good, settings=ImportSettings(window_length_ns=NS_PER_MINUTE))
    with exclusive_lock(lake), pytest.raises(LakeError, match="Another process"):
        put(lake, good)
    assert tree(lake) == before


def test_an_import_that_is_refused_makes_no_lake(tmp_path: Path) -> None:
    """Its windows would be those of every later import."""
    lake, good, odd = tmp_path / "lake", tmp_path / "good.ndjson", tmp_path / "odd.txt"
    write_native(good, 5)
    odd.write_text("hello\n")
    with pytest.raises(UnknownFormatError, match=r"odd\.txt"):
        put(lake, odd)
    with pytest.raises(InputError, match="missing"):
        put(lake, tmp_path / "missing")
    with pytest.raises(LakeError, match="There is no lake"):
        open_manifest(LocalStore.at(lake))
    minute = ImportSettings(window_length_ns=NS_PER_MINUTE)
    assert put(lake, odd, good, settings=minute).commit == 1
    assert open_manifest(LocalStore.at(lake)).info.window_length_ns == NS_PER_MINUTE


def dead_letters(lake: Path) -> list[tuple[str, str]]:
    """(name of the file, reason) of each."""
    disk = LocalStore.at(lake)
    files = [decode(f.table, disk.read(f.name)) for f in open_manifest(disk).files("dead_letters")]
    return sorted((Path(row["source"]).name, row["reason"]) for t in files for row in t.to_pylist())


def jaeger_document(size: int) -> bytes:
    """Return one trace, about so many bytes, whose processes come last."""
    spans = [
        {
            "traceID": "00000000000000ab",
            "spanID": f"{number + 1:016x}",
            "operationName": "get",
            "startTime": 1_763_600_000_000_000 + number,
            "duration": 5,
            "processID": "p1",
            "tags": [{"key": "note", "type": "string", "value": "x" * 1000}],
        }
        for number in range(size // 1000)
    ]
    processes = {"p1": {"serviceName": "shop"}}
    return json.dumps({"traceID": "00000000000000ab", "spans": spans, "processes": processes}).encode()


def zipkin_lists(size: int) -> bytes:
    """Return two messages of protobuf, about so many bytes each, after their lengths as varints."""
    messages = []
    for trace in (1, 2):
        spans = ListOfSpans()
        for number in range(size // 1000):
            span = spans.spans.add(
                trace_id=trace.to_bytes(8, "big"),
                id=(number + 1).to_bytes(8, "big"),
                name="get",
                timestamp=1_763_600_000_000_000 + number,
                duration=5,
            )
            span.local_endpoint.service_name = "shop"
            span.tags.add(key="note", value="x" * 1000)
        messages.append(spans.SerializeToString())
    return b"".join(SpanBodies(spans=[each]).SerializeToString()[1:] for each in messages)  # less the tag


@pytest.mark.parametrize(
    ("write", "size", "requests"), [(jaeger_document, 1_700_000, 1), (zipkin_lists, 2_100_000, 2)]
)
def test_a_new_lake_takes_what_shows_its_format_late(
    tmp_path: Path, write: Callable[[int], bytes], size: int, requests: int
) -> None:
    source = tmp_path / "in"
    source.write_bytes(write(size))
    assert put(tmp_path / "lake", source).counters.flows == requests


def test_a_wrong_format_is_refused_and_the_right_one_can_follow(tmp_path: Path, lines: list[bytes]) -> None:
    file, lake = tmp_path / "spans.jsonl", tmp_path / "lake"
    file.write_bytes(b"".join(lines[:3]))
    with pytest.raises(InputError, match=r"as zipkin; .*spans\.jsonl' \(missing-field: no trace id\)"):
        put(lake, file, settings=ImportSettings(format="zipkin"))
    assert not (lake / "flowdiff.json").exists()
    assert put(lake, file).counters.events_read == 300
    before = tree(lake)
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"".join(lines[3:4]))
    with pytest.raises(InputError, match="as zipkin"):
        put(lake, other, settings=ImportSettings(format="zipkin"))
    assert tree(lake) == before
    with pytest.raises(UnknownFormatError, match="'bogus' is not a format"):
        put(lake, file, settings=ImportSettings(format="bogus"))
    assert put(lake, file, settings=ImportSettings(format="zipkin")).commit is None


def test_a_file_of_which_nothing_came_may_be_tried_in_another_format(
    tmp_path: Path, lines: list[bytes]
) -> None:
    spans, records, lake = tmp_path / "spans.jsonl", tmp_path / "records.ndjson", tmp_path / "lake"
    spans.write_bytes(b"".join(lines[:3]))
    n_events = write_native(records, 5)
    native = ImportSettings(format="native")
    assert put(lake, spans, records, settings=native).counters.events_read == n_events
    assert put(lake, spans, records, settings=native).commit is None
    again = put(lake, spans, records)
    assert again.files_imported == (str(spans),)
    assert (again.counters.events_read, again.files_known) == (300, (str(records),))


def test_bad_files_among_good_ones_are_dead_letters(tmp_path: Path) -> None:
    good, odd, lake = tmp_path / "good.ndjson", tmp_path / "odd.txt", tmp_path / "lake"
    n_events = write_native(good, 5)
    odd.write_text("hello\n")
    empty = [tmp_path / name for name in ("rotated", "list", "object", "blank")]
    for path, text in zip(empty, ("", "[]", "{ }\n", "\n \n"), strict=True):
        path.write_text(text)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(good.read_bytes())[:12])
    summary = put(lake, good, odd, cut, *empty)
    assert summary.counters.events_read == n_events
    assert dict(summary.counters.rejects) == {"bad-compression": 1, "empty": 4, "unknown-format": 1}
    assert dead_letters(lake) == [
        ("blank", "empty"),
        ("cut.gz", "bad-compression"),
        ("list", "empty"),
        ("object", "empty"),
        ("odd.txt", "unknown-format"),
        ("rotated", "empty"),
    ]
    assert put(lake, good, odd, cut, *empty).commit is None


def test_files_that_cannot_be_told_are_all_named(tmp_path: Path) -> None:
    files = [tmp_path / f"odd-{n}.txt" for n in range(7)]
    for number, file in enumerate(files):
        file.write_text(f"hello {number}\n")
    with pytest.raises(
        UnknownFormatError, match=r"odd-\d\.txt'(, '.*odd-\d\.txt'){4} and 2 more are in no format"
    ):
        put(tmp_path / "lake", *files)
    with pytest.raises(UnknownFormatError, match=r"odd-0\.txt' is in no format .* --format native"):
        put(tmp_path / "lake", files[0])


def test_empty_standard_input_is_a_dead_letter_of_that_name(tmp_path: Path) -> None:
    assert put(tmp_path / "lake", Path("-")).counters.rejects == {"empty": 1}
    assert dead_letters(tmp_path / "lake") == [("-", "empty")]


def test_a_folder_that_cannot_be_made_is_an_expected_failure(tmp_path: Path) -> None:
    file = tmp_path / "records.ndjson"
    write_native(file, 1)
    for lake in (file, file / "below"):
        with pytest.raises(LakeError, match="cannot be made"):
            put(lake, file)


@pytest.mark.usefixtures("encoded_once")
def test_a_crash_anywhere_in_an_import_is_mended_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "records.ndjson"
    file.write_text("".join(f"{line}\n" for line in native_lines(6, seconds=900)) + "garbage\n")

    def run(disk: MemoryDisk) -> None:
        import_files(
            LocalStore(disk),
            tmp_path / "scratch",
            [str(file)],
            ImportSettings(),
            owner="test",
            created_by="test",
            stdin=io.BytesIO(),
            progress=Quiet(),
        )

    undisturbed, judged = MemoryDisk(), Judged()
    crashes = deaths(undisturbed, run, None)
    expected = content(LocalStore(undisturbed))
    assert {table for table, _, _ in expected} == {"flows", "structures", "params", "dead_letters"}
    for disk, _ in crashes:
        disk.lose_power()
        if not judged.is_new(disk):
            continue
        assert not content(LocalStore(disk)) - expected
        run(disk)
        disk.lose_power()
        assert check(LocalStore(disk)) == []
        assert content(LocalStore(disk)) == expected


def one_record(request: str, ts_ns: int) -> str:
    return json.dumps(
        {"request_id": request, "breadcrumb": request, "ts": ts_ns, "component": "a", "point": "b"}
    )


MONDAY_NS = 19_000 * 86_400 * 10**9


def test_files_of_two_months_are_both_right_in_one_import(tmp_path: Path) -> None:
    for name, day, n in (("jan", 0, 10), ("mar", 60, 200)):
        lines = [one_record(f"{name}{k}", MONDAY_NS + day * 86_400 * 10**9 + k) for k in range(n)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    together = put(tmp_path / "lake", tmp_path / "jan", tmp_path / "mar")
    assert (together.counters.flows, together.counters.rejects) == (210, {})
    for name in ("jan", "mar"):
        put(tmp_path / "other", tmp_path / name)
    assert sorted(map(str, rows(tmp_path / "lake"))) == sorted(map(str, rows(tmp_path / "other")))


def test_what_was_quarantined_can_be_imported_after_all(tmp_path: Path) -> None:
    lines = [one_record(f"r{n}", MONDAY_NS + n) for n in range(50)]
    lines += [one_record("far", MONDAY_NS + 60 * 86_400 * 10**9)]
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    assert put(tmp_path / "lake", tmp_path / "a").counters.rejects == {"absurd-time": 1}
    assert put(tmp_path / "lake", tmp_path / "a").commit is None
    again = put(tmp_path / "lake", tmp_path / "a", settings=ImportSettings(any_time=True))
    assert (again.counters.flows, again.counters.flows_duplicate, again.counters.rejects) == (1, 50, {})
    assert put(tmp_path / "lake", tmp_path / "a", settings=ImportSettings(any_time=True)).commit is None


def test_a_clock_ten_years_ahead_is_quarantined_and_counted(tmp_path: Path) -> None:
    good = [one_record(f"r{n}", MONDAY_NS + n) for n in range(50)]
    ahead = [one_record(f"r{n}", MONDAY_NS + 3_650 * 86_400 * 10**9) for n in (3, 70)]
    for name, order in (("a", [*good, *ahead]), ("b", [*ahead, *reversed(good)])):
        (tmp_path / name).write_text("\n".join(order) + "\n")
    summary = put(tmp_path / "lake", tmp_path / "a")
    assert (summary.counters.events_read, summary.counters.events_rejected) == (52, 2)
    assert (summary.counters.flows, summary.windows) == (50, 1)
    assert summary.counters.rejects == {"absurd-time": 2}
    disk = LocalStore.at(tmp_path / "lake")
    (file,) = open_manifest(disk).files("dead_letters")
    raw = [json.loads(row) for row in decode("dead_letters", disk.read(file.name))["raw"].to_pylist()]
    assert sorted(row["request_id"] for row in raw) == ["r3", "r70"]
    put(tmp_path / "other", tmp_path / "b")
    assert data_files(tmp_path / "lake").keys() == data_files(tmp_path / "other").keys()
    assert [row for row in rows(tmp_path / "lake") if row[0] != "dead_letters"] == [
        row for row in rows(tmp_path / "other") if row[0] != "dead_letters"
    ]


def test_a_span_that_ends_in_another_century_is_quarantined(tmp_path: Path) -> None:
    """Of Zipkin: its one wrong duration made a mean of years."""
    far_us = 4_000_000_000_000_000
    spans = [
        {
            "traceId": f"{n + 1:032x}",
            "id": f"{n + 1:016x}",
            "name": "get",
            "timestamp": MONDAY_NS // 1000 + n,
            "duration": far_us if n == 7 else 100,
            "localEndpoint": {"serviceName": "web"},
        }
        for n in range(50)
    ]
    (tmp_path / "a.json").write_text(json.dumps(spans))
    counters = put(tmp_path / "lake", tmp_path / "a.json").counters
    assert (counters.flows, counters.rejects) == (49, {"absurd-time": 1})


def test_too_many_windows_are_refused_before_their_files_are_committed(tmp_path: Path) -> None:
    file, lake = tmp_path / "a.ndjson", tmp_path / "lake"
    file.write_text("".join(one_record(f"r{n}", MONDAY_NS + n * 300 * 10**9) + "\n" for n in range(30)))
    with pytest.raises(LakeError, match=r"more than 29 windows of 300 s.* or raise --max-windows"):
        put(lake, file, settings=ImportSettings(max_windows=29))
    assert data_files(lake).keys() == {"flowdiff.json"}
    assert put(lake, file, settings=ImportSettings(max_windows=30)).windows == 30


def test_dead_letters_of_a_file_are_bounded_and_all_are_counted(tmp_path: Path) -> None:
    bad, worse, lake = tmp_path / "bad.ndjson", tmp_path / "worse.ndjson", tmp_path / "lake"
    bad.write_text(one_record("r", MONDAY_NS) + "\n" + "{}\n" * 30)
    worse.write_text(one_record("s", MONDAY_NS) + "\n" + "{}\n" * 5)
    counters = put(lake, bad, worse, settings=ImportSettings(max_dead_letters_per_file=10)).counters
    assert (sum(counters.rejects.values()), counters.rejects_not_kept) == (35, 20)
    assert Counter(name for name, _ in dead_letters(lake)) == {"bad.ndjson": 10, "worse.ndjson": 5}


class Filling(LocalDisk):
    """Full after so many bytes."""

    room = 0

    def create(self, name: str, data: pa.Buffer | bytes) -> None:
        size = len(data)
        super().create(name, data if size <= self.room else bytes(data)[: self.room])
        self.room -= size
        if self.room < 0:
            raise OSError(28, "No space left on device")


def test_a_full_disk_is_told_in_one_line_and_not_left_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lake = tmp_path / "records.ndjson", tmp_path / "lake"
    write_native(file, 60)
    put(tmp_path / "whole", file)
    needed = sum(len(data) for data in tree(tmp_path / "whole").values())
    for room in range(200, needed, needed // 6):
        disk = Filling(lake)
        disk.room = room
        monkeypatch.setattr(LocalStore, "at", lambda _root, disk=disk: LocalStore(disk))
        with pytest.raises(LakeError, match=r"failed: No space left on device\. Nothing is lost"):
            import_into(
                lake,
                [str(file)],
                ImportSettings(),
                owner="test",
                created_by="test",
                stdin=io.BytesIO(),
                progress=Quiet(),
            )
        monkeypatch.undo()
        assert [name for name in tree(lake) if name.startswith("stage/lane")] == []
    put(lake, file)
    assert rows(lake) == rows(tmp_path / "whole")


def test_a_file_that_goes_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, lake = tmp_path / "records.ndjson", tmp_path / "lake"
    write_native(file, 10)

    def decode(path: Path, *how: Any, **more: Any) -> Iterator[DecodedBatch]:
        yield from decode_file(path, *how, **more)
        path.unlink()

    monkeypatch.setattr("stitch.drivers.inputs.decode_file", decode)
    with pytest.raises(InputError, match=r"'.*records\.ndjson' went away while it was read: No such file"):
        put(lake, file)
    assert [name for name in tree(lake) if name.startswith("stage/lane")] == []
    assert open_manifest(LocalStore.at(lake)).windows() == []


def test_scratch_files_are_removed_when_they_do_not_fit(repository: Path, tmp_path: Path) -> None:
    """The disk's limit is a limit on the size of files here: writing past it fails in the same places."""
    file, lake = tmp_path / "records.ndjson", tmp_path / "lake"
    write_native(file, 3_500)
    code = (
        "import resource, sys; from flowdiff.__main__ import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); main(sys.argv[1:])"
    )
    command = ["import", str(file), "--lake", str(lake), "--memory", "64MB"]
    done = fork_server.run(
        [sys.executable, "-c", code, *command], cwd=repository, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flowdiff: Writing the lake")
    assert done.stderr.count("\n") == 1
    assert [name for name in tree(lake) if name.startswith("stage")] == []


def test_all_of_a_lake_is_its_owners_alone(tmp_path: Path) -> None:
    file, lake = tmp_path / "records.ndjson", tmp_path / "new" / "lake"
    file.write_text("".join(f"{line}\n" for line in native_lines(6)) + "garbage\n")
    before = os.umask(0)
    try:
        put(lake, file)
    finally:
        os.umask(before)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in [lake, *lake.rglob("*")]}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_only_windows_near_the_input_are_searched_for_known_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    for hour in range(6):
        file = tmp_path / f"{hour}.ndjson"
        file.write_text(one_record(f"r{hour}", MONDAY_NS + hour * 3_600 * 10**9) + "\n")
        put(lake, file)
    again = tmp_path / "again.ndjson"
    again.write_text(one_record("r4", MONDAY_NS + 4 * 3_600 * 10**9) + "\n\n")
    read: list[str] = []
    whole = LocalStore.read

    def noted(self: LocalStore, name: str) -> pa.Buffer:
        read.append(name)
        return whole(self, name)

    monkeypatch.setattr(LocalStore, "read", noted)
    summary = import_into(
        lake,
        [str(again)],
        ImportSettings(),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    monkeypatch.undo()
    assert summary.counters.flows_duplicate == 1
    # The last commit's files are verified; of the others, only the window that the record lies in.
    searched = {name for name in read if name.startswith("flows/")}
    assert {name.split("-")[1] for name in searched} == {f"{5:012d}", f"{6:012d}"}


def test_a_commit_that_got_lost_stops_the_next_import(tmp_path: Path) -> None:
    lake, other = tmp_path / "lake", tmp_path / "other.ndjson"
    for n in range(2):
        write_native(tmp_path / f"{n}.ndjson", 5 + n, seed=n)
        put(lake, tmp_path / f"{n}.ndjson")
    write_native(other, 7, seed=9)
    (lake / "control/commits/lane=0/000000000002.json").unlink()
    before = data_files(lake)
    with pytest.raises(
        LakeError, match=r"belongs to a commit that the chain does not have: lane 0 ends at 1"
    ):
        put(lake, other)
    assert data_files(lake) == before
