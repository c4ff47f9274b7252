"""What the kernel's output must not depend on: arrival, repetition, cuts, ids, times, interleaving."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from oracles.agreement import kernel_graph
from oracles.examples import examples
from oracles.strategies import Row, record_batches, record_rows, span_batches, span_rows, table_of

from schemas.config import StitchConfig
from stitch.kernel import Stitched, stitch
from stitch.readings import readings_of

CONFIG = StitchConfig()


def tables(result: Stitched) -> tuple[pa.Table, ...]:
    return result.flows, result.structures, result.params


def as_bytes(table: pa.Table) -> bytes:
    """Bytes of the table as a Parquet file, as a lake stores it, without the memory under nulls."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def categories(rows: list[Row]) -> dict[str, tuple[str, str, str]]:
    """Keys of the three levels by request."""
    result = stitch(table_of(rows), CONFIG)
    keys = {
        row["category"]: (row["category"], row["category_l1"], row["category_l2"])
        for row in readings_of(result.structures).to_pylist()
    }
    flows = result.flows.select(["request_id", "category"]).to_pylist()
    return {row["request_id"]: keys[row["category"]] for row in flows}


@examples(60)
@given(data=st.data(), rows=st.one_of(span_batches(), record_batches()))
def test_order_and_repetition_do_not_show(data: st.DataObject, rows: list[Row]) -> None:
    expected = stitch(table_of(rows), CONFIG)
    repeats = data.draw(st.lists(st.sampled_from(rows), max_size=5))
    shuffled = data.draw(st.permutations(rows + repeats))
    result = stitch(table_of(shuffled), CONFIG)
    for ours, theirs in zip(tables(result), tables(expected), strict=True):
        assert as_bytes(ours) == as_bytes(theirs)
    assert [r.raw for r in result.rejects] == [r.raw for r in expected.rejects]


def renamed(value: Any, names: dict[str, str]) -> Any:
    return [names[v] for v in value] if isinstance(value, list) else names[value]


@examples(60)
@given(data=st.data(), spans=span_rows(tidy=True), records=record_rows(tidy=True))
def test_ids_do_not_show(data: st.DataObject, spans: list[Row], records: list[Row]) -> None:
    rows = spans + records
    ids = sorted({row["id"] for row in spans})
    crumbs = sorted({row["breadcrumb"] for row in records})
    names = dict(zip(ids, data.draw(st.permutations(ids)), strict=True))
    names |= dict(zip(crumbs, data.draw(st.permutations(crumbs)), strict=True))
    columns = ("id", "parents", "follows", "breadcrumb", "links")
    other = [row | {c: renamed(row[c], names) for c in columns if row.get(c) is not None} for row in rows]
    assert categories(other) == categories(rows)


@examples(100)
@given(
    data=st.data(),
    spans=st.one_of(span_rows(tidy=True), span_rows(tidy=True, alike=True)),
    records=record_rows(tidy=True),
)
def test_times_and_interleaving_do_not_show(
    data: st.DataObject, spans: list[Row], records: list[Row]
) -> None:
    """Spans nest by their parents and records are ordered by `seq`: no time can change the structure."""
    rows = spans + records
    other = []
    for row in rows:
        start = data.draw(st.integers(0, 50))
        times = {"ts_ns": start}
        if row.get("end_ns") is not None:
            times["end_ns"] = start + data.draw(st.integers(0, 50))
        other.append(row | times)
    assert categories(other) == categories(rows)


@examples(60)
@given(data=st.data(), rows=st.one_of(record_rows(tidy=True), span_rows(tidy=True)))
def test_categories_are_isomorphism_classes(data: st.DataObject, rows: list[Row]) -> None:
    """A program and a slight variation of it: one category iff the labelled DAGs are isomorphic."""
    changed = [dict(row) for row in rows]
    for i in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=2)):
        row = changed[i]
        what = data.draw(st.sampled_from(["point", "label", "kind", "parents", "swap"]))
        if what == "kind":
            row["kind"] = data.draw(st.integers(0, 1) if row["kind"] < 16 else st.integers(16, 21))
        elif what == "parents" and row["kind"] >= 16 and row["parents"]:
            row["parents"] = [rows[data.draw(st.integers(0, i - 1))]["id"]]
        elif what == "swap":
            twin = data.draw(st.sampled_from(changed))
            row["point"], twin["point"] = twin["point"], row["point"]
        else:
            row["label" if what == "label" else "point"] = data.draw(st.sampled_from(["x", "read"]))
    for row in changed:
        row["request_id"] = "other"
    result = stitch(table_of(rows + changed), CONFIG)
    described = {row["category"]: row for row in result.structures.to_pylist()}
    flows = result.flows.to_pylist()
    a, b = (kernel_graph(row, described[row["category"]]) for row in flows)
    isomorphic = nx.is_isomorphic(a, b, node_match=lambda x, y: x["label"] == y["label"])
    assert isomorphic == (flows[0]["category"] == flows[1]["category"])


@st.composite
def near_twins(draw: st.DrawFn) -> list[Row]:
    """Two branches below a root, alike but for one detail somewhere in them."""
    branch = draw(span_rows(tidy=True, alike=True))[:4]
    twin = [dict(row) for row in branch]
    at = draw(st.integers(0, len(twin) - 1))
    detail = draw(st.sampled_from(["asynchrony", "mark", "leaf"]))
    if detail == "asynchrony" and at:
        parents, follows = twin[at]["parents"], twin[at].get("follows")
        twin[at] |= {"parents": follows or [], "follows": parents}
    elif detail == "mark":
        twin[at]["marks"] = [{"ts_ns": 0, "name": "z"}]
    else:
        twin.append({**twin[at], "id": "new", "parents": [twin[at]["id"]], "follows": None, "marks": None})
    rows = [{**branch[0], "id": "root", "parents": [], "follows": None}]
    for prefix, spans in (("a", branch), ("b", twin)):
        for i, row in enumerate(spans):
            above = {c: [prefix + name for name in row.get(c) or []] for c in ("parents", "follows")}
            rows.append(row | above | {"id": prefix + row["id"]} | ({} if i else {"parents": ["root"]}))
    return rows


@examples(75)
@given(data=st.data(), rows=near_twins())
def test_siblings_are_ordered_by_what_they_are_not_by_time(data: st.DataObject, rows: list[Row]) -> None:
    start = {row["id"]: data.draw(st.integers(0, 3)) for row in rows}
    other = [row | {"ts_ns": start[row["id"]], "end_ns": 9} for row in rows]
    assert categories(other) == categories(rows)
