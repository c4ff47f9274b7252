"""Refinement on random input: against the plain oracle, and what must hold whatever comes in."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from oracles.asynchronous import asynchronous
from oracles.critical_path import walk
from oracles.described import describe, tokens
from oracles.examples import examples
from oracles.refine import Key, relations
from oracles.refined import T0, Call, call, population, request_events, stored, table
from oracles.span_tree import SpanTree, boundaries, leave_behind, span_tree, without_deferred
from oracles.stored_flows import random_program, stored_records, stored_spans
from oracles.strategies import Row, record_batches, span_batches, table_of

from analyze.cache_blocks import FEW_CELLS
from analyze.paths.critical_path import attribute, critical_path, edge_latency_ns
from analyze.population import Population, Sample
from analyze.refine.asynchrony import find_asynchronous
from analyze.refine.messages import with_messages
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import decide_order, families, order_evidence
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import FlowMatrices, group_flows
from analyze.refine.structure_nodes import StructureNodes
from schemas.config import StitchConfig
from stitch.graph.placed import POINT, START
from stitch.graph.template import Template
from stitch.kernel import stitch

SMALL = RefineSettings(min_traces=6, min_unanimous=3, slack_ns=10_000, host_policy="none")


@st.composite
def late_trees(draw: st.DrawFn, depth: int = 3) -> Call:
    """Calls of few operations, of which some end after their caller."""
    name = draw(st.sampled_from(["a/x", "b/z"]))
    start, length = draw(st.integers(0, 5)) * 50, draw(st.integers(1, 6)) * 50
    below = draw(st.lists(late_trees(depth=depth - 1), max_size=2)) if depth else []
    return Call(name, start, start + length, tuple(below), None)


@st.composite
def parents(draw: st.DrawFn) -> list[tuple[int, list[tuple[str, int, int]]]]:
    """Requests of one operation: (duration in µs, children as (operation, start, end) in µs)."""
    requests = []
    for _ in range(draw(st.integers(1, 12))):
        names = draw(st.lists(st.sampled_from(["a/x", "a/y", "b/z"]), min_size=2, max_size=4))
        starts = draw(st.lists(st.integers(1, 300), min_size=len(names), max_size=len(names), unique=True))
        lengths = draw(st.lists(st.integers(1, 200), min_size=len(names), max_size=len(names)))
        requests.append(
            (1_000, [(n, 2 * s, 2 * s + d) for n, s, d in zip(names, starts, lengths, strict=True)])
        )
    return requests


ONE = SMALL.model_copy(
    update={"min_traces": 4, "min_unanimous": 1, "async_share": 0.6, "sequential_share": 0.6}
)
"""A request decides, where no other one contradicts."""
CELLS = st.sampled_from([1, 40, FEW_CELLS])
"""Of a batch of requests: one each, a few, all."""


@examples(60)
@given(parents(), CELLS)
def test_consensus_is_the_oracles(requests: list[tuple[int, list[tuple[str, int, int]]]], cells: int) -> None:
    calls = [call("r/get", 0, duration, *(call(*child) for child in below)) for duration, below in requests]
    rows = [row for n, request in enumerate(calls) for row in request_events(request, f"{n:032x}", T0 + n)]
    assert consensus(*stored([table(rows)]), cells) == relations(
        [
            (duration * 1_000, [(name, start * 1_000, end * 1_000) for name, start, end in below], 1.0)
            for duration, below in requests
        ],
        SMALL,
    )


def trees_of(flows: FlowMatrices) -> SpanTrees:
    return SpanTrees.of(StructureNodes.of([category.structure for category in flows.categories]))


def consensus(
    flows: pa.Table, structures: pa.Table, cells: int
) -> dict[tuple[frozenset[Key], Key, Key], str]:
    """What the refinement decides, in the oracle's words."""
    matrices = group_flows(flows, structures, 2)
    kin = families(trees_of(matrices), 99)
    votes = order_evidence(matrices.categories, kin, SMALL, 2, cells)
    names = [(f"{key.operation.component}/{key.operation.point}", key.occurrence) for key in kin.children]
    decided = decide_order(votes, kin.children, SMALL, ["reference", "problem"]).relation.tolist()
    rows = np.split(kin.key, np.cumsum(kin.size)[:-1])
    keys_of = [rows[family].tolist() for family in kin.family[kin.first].tolist()]
    entries = zip(keys_of, kin.key[kin.first].tolist(), kin.key[kin.second].tolist(), strict=True)
    found = {}
    for (keys, first, second), relation in zip(entries, decided, strict=True):
        a, b = names[first], names[second]
        word = {0: "parallel", 1: "ab", 2: "ba"}.get(relation, "open")
        if a > b:
            a, b, word = b, a, {"ab": "ba", "ba": "ab"}.get(word, word)
        found[frozenset(names[key] for key in keys), a, b] = word
    return found


@examples(60)
@given(st.lists(st.lists(late_trees(), min_size=1, max_size=3), min_size=1, max_size=4), CELLS)
def test_what_outlives_its_caller_is_the_oracles(kinds: list[list[Call]], cells: int) -> None:
    requests = [request for kind in kinds for request in kind]
    rows = [row for n, request in enumerate(requests) for row in request_events(request, f"{n:032x}", T0 + n)]
    flows = group_flows(*stored([table(rows)]), 2)
    times = [category.node_ns for category in flows.categories]
    trees = trees_of(flows)
    left, waited, behind, _ = find_asynchronous(flows, trees, ONE, ["reference", "problem"], cells)
    first = trees.first[trees.structure]
    found = []
    for number in range(len(times)):
        units = np.flatnonzero(left & (trees.structure == number))
        mine = trees.structure[waited] == number
        above = trees.parent[behind[mine]]
        found.append(
            (
                frozenset((units - first[units]).tolist()),
                set(
                    zip((waited - first[waited])[mine].tolist(), (above - first[above]).tolist(), strict=True)
                ),
            )
        )
    plain = [span_tree(category.structure) for category in flows.categories]
    assert found == asynchronous(flows.categories, times, plain, ONE)


def same(trees: SpanTrees, plain: Sequence[SpanTree | None]) -> None:
    """The units of each structure are those of its tree."""
    assert trees.n_structures == len(plain)
    for number, tree in enumerate(plain):
        units = trees.units(number)
        if tree is None:
            assert units.start == units.stop
            continue
        assert tuple(trees.start[units].tolist()) == tree.start
        assert tuple(trees.end[units].tolist()) == tree.end
        assert tuple(np.maximum(trees.parent[units] - units.start, -1).tolist()) == tree.parent
        assert tuple(trees.awaited[units].tolist()) == tree.awaited
        assert tuple(trees.deferred[units].tolist()) == tree.deferred
        assert [trees.nodes.names[at] for at in trees.operation[units].tolist()] == list(tree.operation)
        remote = [tree.is_remote_call(unit) for unit in range(tree.n_units)]
        assert trees.is_remote_call[units].tolist() == remote


@examples(60)
@given(st.lists(late_trees(), min_size=1, max_size=5), st.integers(0, 9), st.booleans())
def test_trees_of_all_structures_are_those_of_each(requests: list[Call], seed: int, whole: bool) -> None:
    """Zoom, asynchrony and deferral change all structures at once as they change one."""
    rows = [row for n, request in enumerate(requests) for row in request_events(request, f"{n:032x}", T0 + n)]
    both = zip(stored([table(rows)]), stored_records(seed, 4, 2, 6), strict=True)
    flows = group_flows(*(pa.concat_tables(pair, promote_options="permissive") for pair in both), 1)
    trees, plain = trees_of(flows), [span_tree(category.structure) for category in flows.categories]
    same(trees, plain)
    same(trees.boundaries(), [tree and boundaries(tree) for tree in plain])
    times = [category.node_ns for category in flows.categories]
    left, waited, behind, _ = find_asynchronous(flows, trees, ONE, ["all"])
    decided = asynchronous(flows.categories, times, plain, ONE)
    late = [
        tree and leave_behind(tree, *one, keep_ends=whole) for tree, one in zip(plain, decided, strict=True)
    ]
    same(later := trees.left_behind(left, waited, behind, keep_ends=whole), late)
    pruned, removed = later.without_deferred()
    expected = [tree and without_deferred(tree) for tree in late]
    same(pruned, [one and one[0] for one in expected])
    assert [
        (int(later.start[later.parent[u]]), later.nodes.names[later.operation[u]].text) for u in removed
    ] == [tuple(out) for one in expected if one for out in one[1]]


@examples(60)
@given(span_batches(), record_batches())
def test_what_refinement_takes_for_granted_of_structures(spans: list[Row], records: list[Row]) -> None:
    """Spans form trees, records have no parents; a response waits, by edges, for all that is not deferred."""
    stitched = stitch(table_of(spans + records), StitchConfig())
    sample = pa.array(np.zeros(stitched.flows.num_rows, np.uint8))
    flows = group_flows(stitched.flows.append_column("sample", sample), stitched.structures, 1)
    for category in with_messages(flows, 1)[0].categories:
        one = category.structure
        roots = (0, one.mate[0]) if category.has_spans else range(one.n_nodes)
        assert [at for at, above in enumerate(one.parent) if above < 0] == sorted(roots)
        assert all(
            above < at and one.side[above] == START for at, above in enumerate(one.parent) if above >= 0
        )
        assert [at for at, mate in enumerate(one.mate) if mate < 0] == [
            at for at, side in enumerate(one.side) if side == POINT
        ]
        waited_for = set(one.responses)
        for src, dst in reversed(one.edges):
            waited_for |= {src} if dst in waited_for else set()
        assert [at not in waited_for for at in range(one.n_nodes)] == [*one.deferred]
        assert 0 in waited_for
        assert not category.node_ns[0].any()


def test_memory_of_what_outlives_its_caller_does_not_grow_with_its_siblings() -> None:
    """Every call of many outlives its caller, and each has spans below: siblings are looked at in parts."""
    n_calls, n_requests, cells = 120, 40, 1 << 12
    calls = [
        call(
            "b/z",
            10 * at,
            9_000 + at,
            *(call(f"c/{nth}", 10 * at + nth, 10 * at + nth + 1) for nth in (1, 2)),
        )
        for at in range(n_calls)
    ]
    rows = [
        row
        for n in range(n_requests)
        for row in request_events(call("a/x", 0, 5_000, *calls), f"{n:032x}", T0 + n)
    ]
    flows = group_flows(*stored([table(rows)]), 2)
    trees = trees_of(flows)
    tracemalloc.start()
    found = find_asynchronous(flows, trees, ONE, ["reference", "problem"], cells)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.count_nonzero(found.left) == n_calls
    assert most < 500 * cells + 4_000 * n_calls, f"{most:,} bytes"


def reachable(n_nodes: int, edges: list[list[int]]) -> list[set[int]]:
    reach: list[set[int]] = [set() for _ in range(n_nodes)]
    for src, dst in sorted(edges, reverse=True):
        reach[src] |= {dst} | reach[dst]
    return reach


@st.composite
def span_trees(draw: st.DrawFn, depth: int = 3) -> Call:
    """Any nesting, in and out of the parent's time."""
    start = draw(st.integers(-50, 500))
    length = draw(st.integers(0, 500))
    name = draw(st.sampled_from(["a/x", "a/y", "b/z"]))
    host = draw(st.sampled_from([None, "h1", "h2"]))
    below = draw(st.lists(span_trees(depth=depth - 1), max_size=3)) if depth else []
    return Call(name, start, start + length, tuple(below), host)


def checked(found: Population, n_requests: int) -> None:
    """What G and H may rely on, for any population."""
    assert sum(len(category.response_ns) for category in found.categories) == n_requests
    assert [(c.graph.root, c.graph.key) for c in found.categories] == sorted(
        {(c.graph.root, c.graph.key) for c in found.categories}
    )
    for category in found.categories:
        graph, times = category.graph, category.node_ns
        assert times.flags.c_contiguous
        assert times.shape == (graph.n_nodes, len(category.response_ns))
        assert (times[0] == 0).all()
        assert (times[graph.responses].max(axis=0) == category.response_ns).all()
        latency, path = edge_latency_ns(category), critical_path(category)
        assert (latency >= 0).all()
        assert ((latency * path).sum(axis=1) == category.response_ns).all()
        assert [set(np.flatnonzero(row).tolist()) for row in path] == walk(category)
        order = list(zip(category.sample, category.start_ns, category.request_id.to_pylist(), strict=True))
        assert order == sorted(order)
        if {0, 1} <= set(category.sample.tolist()):
            t, w, p = category.response_ns / 1_000, category.weight, category.sample
            means = [np.average(t[p == at], weights=w[p == at]) for at in (0, 1)]
            parts = attribute(category, latency_ns=latency, on_path=path)
            assert np.isclose(parts.contribution_us.sum(), means[1] - means[0], rtol=1e-9, atol=1e-6)
            assert np.allclose(parts.latency_part_us + parts.criticality_part_us, parts.contribution_us)


@examples(80)
@given(st.lists(span_trees(), min_size=1, max_size=6), st.booleans(), st.sampled_from(["L0", "L3"]))
def test_any_spans_give_a_sound_population(requests: list[Call], keep: bool, level: str) -> None:
    half = len(requests) // 2
    options = RefineSettings(min_traces=2, min_unanimous=2, keep_deferred=keep, level=level)  # type: ignore[arg-type]
    checked(population(requests[:half], requests[half:], options), len(requests))


@examples(40)
@given(
    st.lists(span_trees(), min_size=3, max_size=9), st.sampled_from([1, 3]), st.sampled_from(["none", "full"])
)
def test_any_number_of_samples_gives_a_sound_population(requests: list[Call], n: int, hosts: str) -> None:
    batches = [
        table(
            [
                row
                for at, request in enumerate(requests)
                if at % n == number
                for row in request_events(request, f"{at:032x}", T0 + at * 10**9)
            ]
        )
        for number in range(n)
    ]
    samples = tuple(Sample(f"part {number}") for number in range(n))
    options = RefineSettings(min_traces=2, min_unanimous=2, host_policy=hosts)  # type: ignore[arg-type]
    found = refine(*stored(batches), options, samples)
    checked(found, len(requests))
    assert found.samples == samples
    assert sorted(at for c in found.categories for at in c.sample.tolist()) == sorted(
        at % n for at in range(len(requests))
    )


@examples(15)
@given(st.integers(0, 10_000), st.booleans())
def test_any_programs_give_a_sound_population(seed: int, spans: bool) -> None:
    tables = stored_spans(seed, 120, 5, 8) if spans else stored_records(seed, 120, 5, 12)
    checked(refine(*tables, RefineSettings()), 120)


@examples(25)
@given(st.lists(span_trees(depth=2), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(requests: list[Call], random: object) -> None:
    rows = [row for n, request in enumerate(requests) for row in request_events(request, f"{n:032x}", T0 + n)]
    flows, structures = stored([table(rows)])
    order = list(range(flows.num_rows))
    random.shuffle(order)  # type: ignore[attr-defined]
    once = refine(flows, structures, SMALL)
    again = refine(flows.take(pa.array(order)), pa.concat_tables([structures, structures]), SMALL)
    assert [category.graph.key for category in once.categories] == [c.graph.key for c in again.categories]
    for left, right in zip(once.categories, again.categories, strict=True):
        assert left.request_id.equals(right.request_id)
        assert np.array_equal(left.node_ns, right.node_ns)
        assert np.array_equal(left.skewed_edges, right.skewed_edges)


@examples(20)
@given(st.integers(0, 10_000), st.integers(3, 9))
def test_the_order_of_a_program_is_recovered(seed: int, n_spans: int) -> None:
    """Groups run one after the other, members of a group side by side: so says the refined graph."""
    flows, structures = stored_spans(seed, 60, 1, n_spans)
    (category,) = refine(flows, structures, RefineSettings()).categories
    place = {label: at for at, label in enumerate(category.graph.labels)}
    reach = reachable(category.graph.n_nodes, category.graph.edges.tolist())
    spans = [random_program(np.random.default_rng(seed), n_spans, "op0")]
    for span in spans:
        spans.extend(child for group in span.groups for child in group)
        for at, group in enumerate(span.groups):
            for child in group:
                ends = place[f"{child.component}/{child.name}<"]
                after = [other for later in span.groups[at + 1 :] for other in later]
                beside = [other for other in group if other is not child]
                assert all(place[f"{other.component}/{other.name}>"] in reach[ends] for other in after)
                assert all(place[f"{other.component}/{other.name}>"] not in reach[ends] for other in beside)


@examples(25)
@given(st.integers(0, 10_000))
def test_text_taken_from_the_lake_is_that_of_the_refined_graph(seed: int) -> None:
    for category in refine(*stored_records(seed, 20, 4, 14), RefineSettings()).categories:
        graph = category.graph
        names = [(*label.split("/"), None) for label in graph.labels]
        edges = [(int(src), int(dst)) for src, dst in graph.edges]
        described = describe(Template.of_graph(names, edges, graph.responses.tolist()))  # type: ignore[arg-type]
        assert graph.text.canonical == described.canonical
        assert graph.text.tokens == tokens(described)
