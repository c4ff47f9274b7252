"""Canonical order of DAGs: a complete invariant of labelled graphs, whatever their numbering and times."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitch.columnar.hashing import mix
from stitch.graph.order.dag import Dags, canonical_order
from stitch.graph.order.segments import CyclicGraphError, longest_paths
from stitch.graph.order.transitive_reduction import redundant_edges

RELAXED = settings(deadline=None)
"""No assertion on wall time."""

Template = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


@st.composite
def random_dags(draw: st.DrawFn) -> nx.DiGraph:
    """Any DAG with one source, few labels, all kinds of redundant edges."""
    n = draw(st.integers(1, 9))
    graph = nx.DiGraph()
    graph.add_node(0, label=9)
    for i in range(1, n):
        graph.add_node(i, label=draw(st.integers(0, 1)))
        for j in draw(st.sets(st.integers(0, i - 1), min_size=1, max_size=3)):
            graph.add_edge(j, i)
    return graph


@st.composite
def symmetric_dags(draw: st.DrawFn) -> nx.DiGraph:
    """Programs full of identical branches, nested, crossing and joined in pairs: ties of every kind."""
    graph = nx.DiGraph()

    def node(label: int, before: list[int]) -> int:
        new = len(graph)
        graph.add_node(new, label=label)
        graph.add_edges_from((i, new) for i in before)
        return new

    def run(program: list[tuple], before: list[int]) -> list[int]:
        for kind, *what in program:
            if kind == "node":
                before = [node(what[0], before)]
            elif kind == "parallel":
                before = [end for branch in what for end in run(branch, before)]
            else:
                k, b_label, pairs = what
                a = [node(2, before) for _ in range(k)]
                b = [node(b_label, before) for _ in range(k)]
                joins = [node(4, [a[i], b[j]]) for i, j in pairs]
                before = joins + [v for v in a + b if graph.out_degree(v) == 0]
        return before

    def programs(depth: int) -> list[tuple]:
        steps: list[tuple] = []
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["node", "same", "other", "cross"] if depth else ["node"]))
            if kind == "node":
                steps.append(("node", draw(st.integers(0, 1))))
            elif kind == "same":
                steps.append(("parallel", *[programs(depth - 1)] * draw(st.integers(2, 3))))
            elif kind == "other":
                steps.append(("parallel", programs(depth - 1), programs(depth - 1)))
            else:
                k = draw(st.integers(2, 3))
                pairs = set(enumerate(draw(st.permutations(range(k)))))
                pairs |= draw(st.sets(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1)), max_size=1))
                steps.append(("cross", k, draw(st.sampled_from([2, 3])), sorted(pairs)))
        return steps

    run(programs(2), [node(9, [])])
    return graph


DAGS = st.one_of(random_dags(), symmetric_dags().filter(lambda graph: len(graph) <= 60))
SMALL_DAGS = st.one_of(random_dags(), symmetric_dags().filter(lambda graph: len(graph) <= 16))
"""Small enough to try isomorphisms."""


def templates(graphs: list[nx.DiGraph], seed: int) -> list[Template]:
    """Labels and edges in canonical order of every graph, nodes numbered and timed at random."""
    chance = random.Random(seed)
    first, label, edges, times = [0], [], [], []
    for graph in graphs:
        nodes = list(graph)
        chance.shuffle(nodes)
        number = {node: first[-1] + i for i, node in enumerate(nodes)}
        label += [graph.nodes[node]["label"] for node in nodes]
        edges += [(number[a], number[b]) for a, b in graph.edges]
        times += [chance.randrange(50) for _ in nodes]
        first.append(first[-1] + len(nodes))
    chance.shuffle(edges)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    dags = Dags(np.array(first), mix(np.array(label, dtype=np.uint64)), ends[:, 0], ends[:, 1])
    result = canonical_order(dags, np.array(times, dtype=np.int64))
    found: list[Template] = []
    for i in range(len(graphs)):
        nodes = result.order[first[i] : first[i + 1]]
        assert sorted(nodes.tolist()) == list(range(len(graphs[i])))
        part = slice(int(result.first_edge[i]), int(result.first_edge[i + 1]))
        pairs = tuple(zip(result.src[part].tolist(), result.dst[part].tolist(), strict=True))
        assert all(src < dst for src, dst in pairs)
        found.append((tuple(label[first[i] + k] for k in nodes.tolist()), pairs))
    return found


def as_graph(template: Template) -> nx.DiGraph:
    labels, edges = template
    graph = nx.DiGraph()
    for i, label in enumerate(labels):
        graph.add_node(i, label=label)
    graph.add_edges_from(edges)
    return graph


def isomorphic(a: nx.DiGraph, b: nx.DiGraph) -> bool:
    """By VF2++, tried on graphs small enough for it."""
    if len(a) != len(b) or a.number_of_edges() != b.number_of_edges():
        return False
    return bool(nx.vf2pp_is_isomorphic(a, b, node_label="label"))


@RELAXED
@given(st.lists(SMALL_DAGS, min_size=1, max_size=4), st.integers(0, 2**32))
def test_the_template_is_the_transitive_reduction(graphs: list[nx.DiGraph], seed: int) -> None:
    for graph, template in zip(graphs, templates(graphs, seed), strict=True):
        reduced = nx.transitive_reduction(graph)
        reduced.add_nodes_from(graph.nodes(data=True))
        assert isomorphic(as_graph(template), reduced)


@RELAXED
@given(DAGS, st.integers(0, 2**32))
def test_the_template_depends_on_the_labelled_graph_alone(graph: nx.DiGraph, seed: int) -> None:
    assert len(set(templates([graph] * 5, seed))) == 1


@RELAXED
@given(DAGS, st.lists(DAGS, max_size=4), st.integers(0, 2**32))
def test_the_template_does_not_depend_on_the_batch(
    graph: nx.DiGraph, others: list[nx.DiGraph], seed: int
) -> None:
    alone = templates([graph], seed)[0]
    assert templates([*others, graph], seed)[-1] == alone
    assert templates([graph, *others, graph], seed)[0] == alone


@RELAXED
@given(SMALL_DAGS, SMALL_DAGS, st.integers(0, 2**32), st.data())
def test_templates_are_equal_only_of_isomorphic_graphs(
    graph: nx.DiGraph, other: nx.DiGraph, seed: int, data: st.DataObject
) -> None:
    # A near relative: one edge moved; and one label changed.
    near = graph.copy()
    if graph.number_of_edges():
        src, dst = data.draw(st.sampled_from(sorted(graph.edges)))
        near.remove_edge(src, dst)
        order = list(nx.topological_sort(graph))
        near.add_edge(data.draw(st.sampled_from(order[: order.index(dst)])), dst)
    renamed = graph.copy()
    node = data.draw(st.sampled_from(sorted(graph)))
    renamed.nodes[node]["label"] = data.draw(st.sampled_from([0, 1, 7]))
    found = templates([graph, other, near, renamed], seed)
    for template in found[1:]:
        assert (template == found[0]) == isomorphic(as_graph(template), as_graph(found[0]))


@RELAXED
@given(DAGS, st.integers(0, 2**32), st.integers(2, 5))
def test_members_of_one_dag_get_its_template_each_with_its_own_times(
    graph: nx.DiGraph, seed: int, n_members: int
) -> None:
    n = len(graph)
    number = {node: i for i, node in enumerate(graph)}
    labels = np.array([graph.nodes[node]["label"] for node in graph], dtype=np.uint64)
    src = np.array([number[a] for a, _ in graph.edges], dtype=np.int64)
    dst = np.array([number[b] for _, b in graph.edges], dtype=np.int64)
    times = np.array([random.Random(seed).randrange(9) for _ in range(n * n_members)], dtype=np.int64)
    result = canonical_order(
        Dags(np.array([0, n]), mix(labels), src, dst), times, member=np.zeros(n_members, dtype=np.int64)
    )
    reduced = {(number[a], number[b]) for a, b in nx.transitive_reduction(graph).edges}
    for k in range(n_members):
        order = result.order[k * n : (k + 1) * n]
        assert {
            (int(order[a]), int(order[b])) for a, b in zip(result.src, result.dst, strict=True)
        } == reduced
        alone = canonical_order(Dags(np.array([0, n]), mix(labels), src, dst), times[k * n : (k + 1) * n])
        assert alone.order.tolist() == order.tolist()
        assert (labels[order] == labels[result.order[:n]]).all()


@RELAXED
@given(st.lists(random_dags(), min_size=1, max_size=5))
def test_redundant_edges_against_networkx(graphs: list[nx.DiGraph]) -> None:
    whole = nx.disjoint_union_all(graphs)
    flow = np.repeat(np.arange(len(graphs)), [len(graph) for graph in graphs])
    edges = sorted(whole.edges)
    src, dst = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    _, rounds = longest_paths(np.ones(len(whole), np.int64), src, dst)
    redundant = redundant_edges(flow, rounds, src, dst)
    kept = {edge for edge, drop in zip(edges, redundant.tolist(), strict=True) if not drop}
    assert kept == set(nx.transitive_reduction(whole).edges)


def test_wide_reach_masks() -> None:
    """More than 64 branching nodes: several words a mask."""
    graph = nx.DiGraph([(i, j) for i in range(150) for j in range(i + 1, 150)])
    edges = sorted(graph.edges)
    src, dst = np.array(edges, dtype=np.int64).T
    _, rounds = longest_paths(np.ones(150, np.int64), src, dst)
    redundant = redundant_edges(np.zeros(150, np.int64), rounds, src, dst)
    assert [e for e, drop in zip(edges, redundant.tolist(), strict=True) if not drop] == [
        (i, i + 1) for i in range(149)
    ]


@pytest.mark.parametrize(
    "edges", [[(0, 1), (1, 2), (2, 1)], [(0, 1), (1, 0)], [(0, 0)], [(0, 1), (1, 2), (2, 3), (3, 1), (0, 3)]]
)
def test_cycles_are_refused(edges: list[tuple[int, int]]) -> None:
    ends = np.array(edges, dtype=np.int64)
    n = int(ends.max()) + 1
    dags = Dags(np.array([0, n]), np.zeros(n, np.uint64), ends[:, 0], ends[:, 1])
    with pytest.raises(CyclicGraphError):
        canonical_order(dags, np.zeros(n, np.int64))


@RELAXED
@given(DAGS, st.integers(0, 2**32))
def test_columns_of_interchangeable_chains_are_in_time_order(graph: nx.DiGraph, seed: int) -> None:
    """Three copies of a chain: their heads come in time order, each chain in one piece."""
    chance = random.Random(seed)
    graph = graph.copy()
    sinks = [v for v in graph if graph.out_degree(v) == 0]
    hub = len(graph)
    graph.add_node(hub, label=20)
    graph.add_edges_from((v, hub) for v in sinks)
    chains = []
    for _ in range(3):
        head, tail = len(graph), len(graph) + 1
        graph.add_node(head, label=21)
        graph.add_node(tail, label=22)
        graph.add_edges_from([(hub, head), (head, tail)])
        chains.append((head, tail))
    times = {v: chance.randrange(1_000_000) for v in graph}
    nodes = list(graph)
    chance.shuffle(nodes)
    number = {v: i for i, v in enumerate(nodes)}
    ends = np.array([(number[a], number[b]) for a, b in graph.edges], dtype=np.int64)
    dags = Dags(
        np.array([0, len(nodes)]),
        mix(np.array([graph.nodes[v]["label"] for v in nodes], dtype=np.uint64)),
        ends[:, 0],
        ends[:, 1],
    )
    result = canonical_order(dags, np.array([times[v] for v in nodes], dtype=np.int64))
    placed = [nodes[i] for i in result.order.tolist()]
    chains.sort(key=lambda chain: times[chain[0]])
    expected = [v for chain in chains for v in chain]
    assert [v for v in placed if v in set(expected)] == expected
