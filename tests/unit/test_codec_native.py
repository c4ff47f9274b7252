"""Native records: the table of docs/internals/formats.md, line by line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ingest.codecs.native.encode_native import native_lines
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.errors import InputError
from schemas.events import EventKind, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig()
T0 = 1_700_000_000_000_000_000


def record(**fields: object) -> bytes:
    return json.dumps({"breadcrumb": "b", "ts": T0, "component": "c", "point": "p"} | fields).encode()


FULL = record(
    request_id="r",
    host="h",
    label="HIT",
    kind="split",
    links=["b1", "b2"],
    seq=-3,
    id="i",
    parents=["x"],
    params={"n": 1.5, "t": "x", "b": True, "deep": {"a": [1, None]}, "quote": 'a"b\\c', "nothing": None},
    status="late",
    sample_rate=0.5,
)


def rows(*payloads: bytes) -> list[dict[str, Any]]:
    decoded = codec_for("native").decode(payloads, CONFIG)
    assert not decoded.rejects
    out: list[dict[str, Any]] = with_text_ids(decoded.events).to_pylist()
    return out


def test_every_field() -> None:
    (row,) = rows(FULL)
    assert row == {
        "kind": EventKind.SPLIT,
        "request_id": "r",
        "breadcrumb": "b",
        "id": "i",
        "parents": ["x"],
        "follows": None,
        "links": ["b1", "b2"],
        "seq": -3,
        "ts_ns": T0,
        "end_ns": None,
        "component": "c",
        "point": "p",
        "label": "HIT",
        "host": "h",
        "peer": None,
        "shared": False,
        "status": "late",
        "sample_rate": 0.5,
        "marks": None,
        "params": [
            {"key": "b", "num": None, "text": "true"},
            {"key": "deep", "num": None, "text": '{"a":[1,null]}'},
            {"key": "n", "num": 1.5, "text": None},
            {"key": "quote", "num": None, "text": 'a"b\\c'},
            {"key": "t", "num": None, "text": "x"},
        ],
    }


def test_defaults() -> None:
    (row,) = rows(record())
    assert row["kind"] == EventKind.EVENT
    assert row["status"] == "ok"
    assert row["params"] is None
    assert row["sample_rate"] is None


def test_object_lines_and_array_are_the_same_records() -> None:
    a, b = record(point="a"), record(point="b", params={"x": 1})
    expected = rows(a, b)
    assert rows(a + b"\n" + b) == expected
    assert rows(b"\n\n" + a + b"\r\n \n" + b + b"\n") == expected
    assert rows(b"[" + a + b",\n" + b + b"]") == expected
    pretty = json.dumps(json.loads(b), indent=2).encode()
    assert rows(a, pretty) == expected
    assert rows(b"[" + a + b"," + pretty + b"]") == expected


def test_flat_and_parsed_params_are_the_same() -> None:
    flat = {"a": "x{y", "b": -1e3, "c": False, "d": "", "e": "1", "f": 0}
    (fast,) = rows(record(params=flat))
    (slow,) = rows(record(params=flat | {"zz": "\\"}))
    assert slow["params"][:-1] == fast["params"]
    assert [p["text"] for p in fast["params"]] == ["x{y", None, "false", "", "1", None]


def test_text_that_looks_like_something_else_is_text() -> None:
    names = ["true", "{id}", "[x]", "5", "null"]
    assert [r["point"] for r in rows(*(record(point=n) for n in names))] == names
    assert [r["breadcrumb"] for r in rows(*(record(breadcrumb=n) for n in names))] == names


def test_numbers_as_ids_and_text_as_numbers_are_taken() -> None:
    (row,) = rows(record(request_id=17, seq="4", ts=str(T0), links=["a", 2]))
    assert (row["request_id"], row["seq"], row["ts_ns"], row["links"]) == ("17", 4, T0, ["a", "2"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (b"{", Reason.BAD_JSON),
        (b"5", Reason.WRONG_SHAPE),
        (b"null", Reason.WRONG_SHAPE),
        (b"{}", Reason.MISSING_FIELD),
        (b"\xff\xfe", Reason.BAD_JSON),
        (b'{"a":"\xff"}', Reason.NOT_UTF8),
        (record(point="x")[:-1] + b',"y":"\\ud800"}', Reason.BAD_JSON),
        (b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}", Reason.TOO_DEEP),
        (record(ts=None), Reason.BAD_TYPE),
        (record(ts=17), Reason.BAD_TIME),
        (record(ts=2**63), Reason.BAD_VALUE),
        (record(ts="soon"), Reason.BAD_TYPE),
        (record(point=""), Reason.BAD_VALUE),
        (record(point=["x"]), Reason.BAD_TYPE),
        (record(point=True), Reason.BAD_TYPE),
        (record(point="x" * 257), Reason.BAD_VALUE),
        (record(breadcrumb="x" * 257), Reason.BAD_VALUE),
        (record(breadcrumb="a\0b"), Reason.BAD_VALUE),
        (record(kind="fork"), Reason.BAD_VALUE),
        (record(links="b1"), Reason.BAD_TYPE),
        (record(links=["x" * 257]), Reason.BAD_VALUE),
        (record(seq=1.5), Reason.BAD_TYPE),
        (record(params=[1]), Reason.BAD_TYPE),
        (record(params={"a": 1})[:-2] + b',"b":1e400}}', Reason.BAD_JSON),
        (record(sample_rate=0), Reason.BAD_VALUE),
        (record(sample_rate=1.5), Reason.BAD_VALUE),
        (record(sample_rate="often"), Reason.BAD_TYPE),
        *((record(sample_rate=rate), Reason.BAD_VALUE) for rate in (2.0**-57, 1e-300, 1e-310)),
    ],
)
def test_a_wrong_line_is_refused_and_its_neighbours_are_not(wrong: bytes, reason: Reason) -> None:
    lines = record(point="first") + b"\n" + wrong + b"\n" + record(point="last")
    decoded = codec_for("native").decode([record(), lines], CONFIG)
    assert decoded.events["point"].to_pylist() == ["p", "first", "last"]
    (reject,) = decoded.rejects
    assert (reject.reason, reject.payload, reject.item) == (reason, 1, 1)
    assert reject.raw == wrong
    assert reject.detail


def test_nul_in_names_is_replaced_and_counted() -> None:
    decoded = codec_for("native").decode([record(point="a\0b")], CONFIG)
    assert decoded.events["point"].to_pylist() == ["a\N{REPLACEMENT CHARACTER}b"]
    assert decoded.oddities == {"nul-replaced": 1}


def test_unknown_fields_are_ignored_and_counted() -> None:
    decoded = codec_for("native").decode(
        [record(colour="red", params={"x": 1}) + b"\n" + record(size=1)], CONFIG
    )
    assert decoded.events.num_rows == 2
    assert decoded.oddities == {"unknown-field": 2}


TWICE = [
    (b'"point":"a","point":"b"', ("point", "a")),
    (b'"point":"a","poin\\u0074":"b"', ("point", "a")),
    (b'"point":"a","label":null,"label":"b"', ("label", None)),
    (b'"point":"a","seq":1,"seq":"x"', ("seq", 1)),
    (b'"point":"a","params":{"a":1},"params":{"b":2}', ("params", {"a": 1.0})),
    (b'"point":"a","params":{"a":1,"a":2}', ("params", {"a": 1.0})),
    (b'"point":"a","params":{"a":null,"a":2}', ("params", {"a": 2.0})),
    (b'"point":"a","params":{"a":1,"a":2,"b":"\\\\"}', ("params", {"a": 1.0, "b": "\\"})),
    (b'"point":"a","params":{"a":1,"a":2,"b":[]}', ("params", {"a": 1.0, "b": "[]"})),
    (b'"point":"a","params":{"a":{"b":1,"b":2}}', ("params", {"a": '{"b":2}'})),
]


@pytest.mark.parametrize(("named", "column"), TWICE)
@pytest.mark.parametrize("more", [b"", b',"host":"false"', b',"sample_rate":5e-000001'])
def test_of_two_values_under_one_name_the_first_counts(
    named: bytes, column: tuple[str, object], more: bytes
) -> None:
    """However a record is read: `false` is read one by one, and so was a rate that is hardly a number where
    another was none."""
    line = b'{"breadcrumb":"b","ts":%d,"component":"c",%b%b}' % (T0, named, more)
    for payload in (line, line + b"\n" + record(sample_rate="often")):
        decoded = codec_for("native").decode([payload], CONFIG)
        (row,) = decoded.events.to_pylist()
        value = row[column[0]]
        if column[0] == "params":
            value = {p["key"]: p["text"] if p["num"] is None else p["num"] for p in value}
        assert value == column[1]
        assert decoded.oddities["duplicate-param"] <= 1


def test_the_first_value_is_refused_where_it_is_wrong() -> None:
    line = record()[:-1] + b',"label":[1],"label":"x"}'
    (reject,) = codec_for("native").decode([line], CONFIG).rejects
    assert (reject.reason, reject.raw) == (Reason.BAD_TYPE, line)


def test_lists_are_lists_whatever_text_others_have() -> None:
    """Lists of many records are parsed together: text that looks like parts of lists is none."""
    texts = ['["a"],["b"]', '["c"', '"d"]']
    lines = [record(links=text) for text in texts[:1]] + [record(links=["l"])]
    lines += [record(links=text) for text in texts[1:]]
    decoded = codec_for("native").decode(lines, CONFIG)
    assert decoded.events["links"].to_pylist() == [["l"]]
    assert [reject.reason for reject in decoded.rejects] == [Reason.BAD_TYPE] * 3


def test_a_param_is_kept_as_deep_as_the_parser_goes() -> None:
    for more in ({}, {"host": "false"}):
        line = record(params={"x": 0}, **more).replace(b'"x": 0', b'"x":%b0%b' % (b"[" * 600, b"]" * 600))
        decoded = codec_for("native").decode([line, line], CONFIG)
        assert [row[0]["text"].count("[") for row in decoded.events["params"].to_pylist()] == [600, 600]


def test_what_is_odd_in_a_record_that_is_read_one_by_one_is_counted_once() -> None:
    decoded = codec_for("native").decode([record(host="false", params={"x": "y" * 5_000})], CONFIG)
    assert decoded.oddities == {"text-cut": 1}


def test_a_broken_array_is_one_reject() -> None:
    decoded = codec_for("native").decode([b"[" + record() + b",", record()], CONFIG)
    assert decoded.events.num_rows == 1
    assert [(r.payload, r.reason) for r in decoded.rejects] == [(0, Reason.BAD_JSON)]


def test_written_out_and_read_again() -> None:
    events = codec_for("native").decode([FULL, record(), record(kind="end", request_id="r")], CONFIG).events
    again = codec_for("native").decode([b"\n".join(native_lines(events))], CONFIG)
    assert again.events.to_pylist() == events.to_pylist()
    assert not again.rejects


def test_spans_have_no_native_form() -> None:
    span = b'[{"traceId":"1","id":"2","timestamp":1700000000000000}]'
    events = codec_for("zipkin").decode([span], CONFIG).events
    with pytest.raises(InputError):
        list(native_lines(events))


_SINGLES: dict[str, Callable[[int], bytes]] = {
    "plain": lambda i: record(breadcrumb=f"b{i}"),
    "with a line end": lambda i: record(breadcrumb=f"b{i}") + b"\n",
    "with a DOS line end": lambda i: record(breadcrumb=f"b{i}") + b"\r\n",
    "of two lines": lambda i: record(breadcrumb=f"b{i}") + b"\n" + record(breadcrumb=f"c{i}"),
    "an array": lambda i: b"[" + record(breadcrumb=f"b{i}") + b"]",
    "indented": lambda i: json.dumps(json.loads(record(breadcrumb=f"b{i}")), indent=1).encode(),
    "with a byte order mark": lambda i: b"\xef\xbb\xbf" + record(breadcrumb=f"b{i}"),
    "after a blank line": lambda i: b"\n" + record(breadcrumb=f"b{i}"),
    "of two line ends": lambda i: record(breadcrumb=f"b{i}") + b"\n\n",
    "broken": lambda i: b'{"breadcrumb": ' + str(i).encode(),
    "of no record": lambda i: b"hello " + str(i).encode(),
    "refused": lambda i: record(breadcrumb=f"b{i}", ts=i),
    "long": lambda i: record(breadcrumb=f"b{i}", params={"x": "y" * 2_000_000}),
    "empty": lambda i: b"\n" * (i % 3),
}


@pytest.mark.parametrize("odd", [None, *_SINGLES])
@pytest.mark.parametrize("usual", ["plain", "with a line end", "refused"])
def test_many_payloads_read_as_each_alone(usual: str, odd: str | None) -> None:
    """Messages of one record are read as one block; what is no such message does not change the others."""
    kinds = [usual] * 9 if odd is None else [odd if i % 5 == 2 else usual for i in range(9)]
    payloads = [_SINGLES[kind](i) for i, kind in enumerate(kinds)]
    together = codec_for("native").decode(payloads, CONFIG)
    alone = [codec_for("native").decode([payload], CONFIG) for payload in payloads]
    assert together.events.to_pylist() == [row for one in alone for row in one.events.to_pylist()]
    assert [(r.payload, r.item, r.reason, r.raw) for r in together.rejects] == [
        (i, r.item, r.reason, r.raw) for i, one in enumerate(alone) for r in one.rejects
    ]
    assert together.oddities == sum((Counter(one.oddities) for one in alone), Counter())
