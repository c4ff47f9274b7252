"""Hosts, failures, nesting and what was left behind stay with their spans, whatever is sorted or merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from oracles.attached import LATE, Seen, requests, seen_tree, written_tree
from oracles.examples import examples
from oracles.refined import Call, population
from oracles.stored_flows import lake_tables

from analyze.population import Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind
from stitch.graph.template import Template

OPTIONS = RefineSettings(min_traces=2, min_unanimous=2, host_policy="none", correct_skew=False)
# One call decides that it is late; and without slack, an order of siblings moves no time.
EXACT = OPTIONS.model_copy(update={"min_traces": 1, "min_unanimous": 1, "slack_ns": 0, "slack_share": 0.0})
KINDS = {"a/x": EventKind.SPAN_INTERNAL, "a/y": EventKind.SPAN_CLIENT, "b/z": EventKind.SPAN_SERVER}
NAMES = st.sampled_from(sorted(KINDS))
HOSTS = st.sampled_from(["h1", "h2", "h3"])
STATUSES = st.sampled_from(["ok", "ok", "ok", "timeout", "refused"])


Shape = tuple[str, int, list["Shape"]]
"""(operation, number of marks, shapes of the children)."""


@st.composite
def shapes(draw: st.DrawFn, depth: int = 2) -> Shape:
    """A tree of calls in which whole branches occur several times."""
    below = draw(st.lists(shapes(depth=depth - 1), max_size=2)) if depth else []
    copies = [shape for shape in below for _ in range(draw(st.integers(1, 3)))]
    return draw(NAMES), draw(st.integers(0, 1)), copies


@st.composite
def nested(draw: st.DrawFn, shape: Shape, start: int = 0, end: int = 1 << 20) -> Call:
    """Spans of a shape, all inside their parents' times but for calls that come back after the response.

    Without the late calls branches are interchangeable that were not as stored.
    """
    name, n_marks, children = shape
    span = end - start
    below = []
    for child in children:
        first = start + 1 + draw(st.integers(0, span // 2 - 2))
        below.append(draw(nested(child, first, draw(st.integers(first + span // 4, end - 1)))))
    if draw(st.integers(0, 2)) == 0:
        first = draw(st.integers(start + 1, end - 1))
        below.append(Call(LATE, first, 1 << 22, (), draw(HOSTS), status=draw(STATUSES)))
    marks = [draw(st.integers(start + 1, end - 1)) for _ in range(n_marks)]
    return _span(draw, name, start, end, below, marks)


@st.composite
def anyhow(draw: st.DrawFn, depth: int = 3) -> Call:
    """A span with children in and out of its time."""
    start, length = draw(st.integers(0, 500)), draw(st.integers(0, 500))
    below = draw(st.lists(anyhow(depth=depth - 1), max_size=3)) if depth else []
    return _span(draw, draw(NAMES), start, start + length, below, [])


def _span(draw: st.DrawFn, name: str, start: int, end: int, below: list[Call], marks: list[int]) -> Call:
    return Call(name, start, end, tuple(below), draw(HOSTS), KINDS[name], draw(STATUSES), tuple(marks))


def number(request_id: str) -> int:
    """Place of a request of `population(reference, …)`."""
    return int(request_id[8:], 16)


@examples(80)
@given(shapes().flatmap(lambda shape: st.lists(nested(shape), min_size=1, max_size=4)))
def test_every_request_is_what_was_written(written: list[Call]) -> None:
    found = population(written, settings=EXACT)
    seen = {number(name): seen_tree(spans) for name, spans in requests(found)}
    assert seen == {at: written_tree(request) for at, request in enumerate(written)}
    checked_form(found)


def checked_form(found: Population) -> None:
    for category in found.categories:
        assert category.host is not None
        assert category.host.shape == category.node_ns.shape
        places = list(zip(category.failures.row.tolist(), category.failures.position.tolist(), strict=True))
        assert places == sorted(set(places))


@examples(80)
@given(st.lists(anyhow(), min_size=1, max_size=6))
def test_every_span_is_there_or_left_behind(drawn: list[Call]) -> None:
    """Hosts are numbered here, so that each tells its span, whatever becomes of the times."""
    written = [_numbered(request, f"{at}") for at, request in enumerate(drawn)]
    for name, spans in requests(population(written, settings=OPTIONS)):
        calls = dict(_by_host(written[number(name)]))
        there = {span.host: span for span in spans.values()}
        assert len(there) == len(spans)
        for host, span in there.items():
            call, above = calls[host]
            assert (span.operation, span.kind) == (call.name, call.kind)
            assert span.error == (None if call.status == "ok" else call.status)
            assert (above is None) == (span.parent < 0)
            if above is not None:
                assert spans[span.parent].host in _ancestors(calls, host)
            gone = Counter(child.name for child in call.calls if child.host not in there)
            assert span.left_behind == gone
        assert str(number(name)) in there


def _numbered(call: Call, name: str) -> Call:
    below = tuple(_numbered(child, f"{name}.{at}") for at, child in enumerate(call.calls))
    return replace(call, host=name, calls=below)


def _by_host(call: Call, above: str | None = None) -> list[tuple[str, tuple[Call, str | None]]]:
    assert call.host is not None
    below = [pair for child in call.calls for pair in _by_host(child, call.host)]
    return [(call.host, (call, above)), *below]


def _ancestors(calls: dict[str, tuple[Call, str | None]], host: str) -> set[str]:
    found = set()
    above = calls[host][1]
    while above is not None:
        found.add(above)
        above = calls[above][1]
    return found


READS = Template.of_graph(
    [("a", "s", None), ("a", "read", None), ("a", "read", None), ("a", "back", None), ("a", "e", None)],
    [(0, 1), (0, 2), (1, 3), (1, 4), (2, 4)],
    [4],
    deferred=[False, False, False, True, False],
)


@examples(30)
@given(
    st.lists(st.tuples(st.permutations([10, 20]), st.integers(0, 4), HOSTS, HOSTS), min_size=1, max_size=8)
)
def test_records_keep_their_hosts_and_failures(drawn: list[tuple[list[int], int, str, str]]) -> None:
    """Two reads are interchangeable without the write-back of one: each request orders them by start."""
    times = np.array([[0, *starts, 50, 30] for starts, *_ in drawn], dtype=np.int64)
    flows, structures = lake_tables(np.random.default_rng(0), [(READS, times)])
    hosts = [["h0", first, second, "h0", "h0"] for _, _, first, second in drawn]
    for name, values in {
        "host": hosts,
        "error_position": [[at] for _, at, *_ in drawn],
        "error_class": [["broken"] for _ in drawn],
    }.items():
        at = flows.schema.get_field_index(name)
        flows = flows.set_column(at, name, pa.array(values, flows.schema.field(name).type))
    found = refine(flows, structures, OPTIONS)
    (category,) = found.categories
    assert category.graph.nesting is None
    assert category.graph.kind == "records"
    assert category.host is not None
    checked_form(found)
    by_id = {name: row for row, name in enumerate(category.request_id.to_pylist())}
    failed = set(zip(category.failures.row.tolist(), category.failures.position.tolist(), strict=True))
    for at, (request, own) in enumerate(zip(flows["request_id"].to_pylist(), hosts, strict=True)):
        row = by_id[request]
        seen = Counter(
            (label, int(ns), found.hosts[code], (row, position) in failed)
            for position, (label, ns, code) in enumerate(
                zip(category.graph.labels, category.node_ns[:, row], category.host[:, row], strict=True)
            )
        )
        assert seen == Counter(
            (f"a/{READS.point[node]}", int(times[at, node]), own[node], node == drawn[at][1])
            for node in (0, 1, 2, 4)
        )


def test_a_sample_of_many_keeps_what_is_attached() -> None:
    request = Call(
        "a/x", 0, 100, (Call("a/y", 10, 50, host="h1"), Call("a/y", 20, 40, host="h2", status="no")), "h0"
    )
    swapped = replace(
        request, calls=(replace(request.calls[0], host="h2"), replace(request.calls[1], host="h1"))
    )
    both = population([request, swapped] * 3, [swapped] * 4, OPTIONS)
    assert {tuple(seen_tree(spans)) for _, spans in requests(both)} == {
        written_tree(request),
        written_tree(swapped),
    }
    alone = both.of_samples(1, 2)
    assert [seen_tree(spans) for _, spans in requests(alone)] == [written_tree(swapped)] * 4


def test_hosts_that_all_requests_share_are_kept_once() -> None:
    request = Call("a/x", 0, 100, (Call("b/z", 10, 50, host="h1"),), "h0")
    (category,) = population([request] * 5, [request] * 5, OPTIONS).categories
    assert category.host is not None
    assert category.host.strides[1] == 0
    assert category.host.shape == (4, 10)


def test_a_twin_that_left_a_child_behind_keeps_it() -> None:
    """Of two calls of one operation the slower starts a flush, first or second: `origin` says which."""
    flush = Call("a/flush", 60, 400, host="f")

    def request(first: bool) -> Call:
        calls = (
            Call("b/z", 10, 50, (replace(flush, start=20),) if first else (), "h1"),
            Call("b/z", 55, 90, () if first else (flush,), "h2"),
        )
        return Call("a/x", 0, 100, calls, "h0")

    found = population([request(True), request(False)] * 5, settings=OPTIONS)
    (category,) = found.categories
    assert len(category.left_behind) == 2
    for name, spans in requests(found):
        holder = [span.host for span in spans.values() if span.left_behind]
        assert holder == ["h1" if number(name) % 2 == 0 else "h2"]


def test_the_reader_of_this_file_sees_a_span() -> None:
    """`Seen` of a call with marks and a failure, by hand."""
    call = Call("a/x", 0, 100, (Call("a/y", 10, 50, (), "h1", KINDS["a/y"], "no", (30,)),), "h0")
    ((_, spans),) = requests(population([call], settings=OPTIONS))
    inner = next(span for span in spans.values() if span.operation == "a/y")
    assert inner == Seen("a/y", 10_000, "h1", "no", EventKind.SPAN_CLIENT, 0, 50_000, Counter(), inner.below)
    assert [spans[at].start_ns for at in inner.below] == [30_000]
