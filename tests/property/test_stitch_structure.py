"""Texts, keys and folding of random structures."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st
from oracles.canonical_text import read_text
from oracles.described import Structure, describe, tokens
from oracles.examples import examples
from oracles.plain_flow import reduce_transitively
from oracles.structure_rows import structure_from_row, structures_table

from stitch.graph.folding import node_words
from stitch.graph.template import Template

Names = list[tuple[str, str, str | None]]


@st.composite
def dag_templates(draw: st.DrawFn) -> Template:
    """Any DAG with one source: series-parallel or not, with responses anywhere."""
    n = draw(st.integers(1, 12))
    edges = set()
    for v in range(1, n):
        for u in draw(st.sets(st.integers(max(0, v - 5), v - 1), min_size=1, max_size=3)):
            edges.add((u, v))
    edges = reduce_transitively(n, edges)
    names: Names = [("c", draw(st.sampled_from("abc")), None) for _ in range(n)]
    responses = draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=2))
    return with_responses(names, edges, responses)


def with_responses(names: Names, edges: set[tuple[int, int]], responses: set[int]) -> Template:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(names)))
    graph.add_edges_from(edges)
    awaited = responses.union(*(nx.ancestors(graph, v) for v in responses))
    deferred = [v not in awaited for v in range(len(names))]
    return Template.of_graph(names, sorted(edges), sorted(responses), deferred=deferred)


Body = list["str | tuple[int, Body] | list[Body]"]
"""A program: letters, loops (count, body) and parallel branches."""

bodies = st.recursive(
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            st.sampled_from("abc"),
            st.tuples(st.integers(1, 6), inner),
            st.lists(inner, min_size=2, max_size=3),
        ),
        min_size=1,
        max_size=3,
    ),
    max_leaves=8,
)


def run(body: Body) -> Template:
    """The template of a program, nodes in the order they are made."""
    names: Names = []
    edges: set[tuple[int, int]] = set()

    def node(name: str, opens: list[int]) -> list[int]:
        names.append(("c", name, None))
        edges.update((src, len(names) - 1) for src in opens)
        return [len(names) - 1]

    def steps(items: Body, opens: list[int]) -> list[int]:
        for item in items:
            if isinstance(item, str):
                opens = node(item, opens)
            elif isinstance(item, tuple):
                for _ in range(item[0]):
                    opens = steps(item[1], opens)
            else:
                opens = node("fork", opens)
                opens = [end for branch in item for end in steps(branch, opens)]
                opens = node("join", opens)
        return opens

    responses = steps(body, node("root", []))
    return with_responses(names, edges, set(responses))


def recounted(draw: st.DrawFn, body: Body) -> Body:
    """The same program with other loop counts."""
    result: Body = []
    for item in body:
        if isinstance(item, tuple):
            result.append((draw(st.integers(1, 6)), recounted(draw, item[1])))
        elif isinstance(item, list):
            result.append([recounted(draw, branch) for branch in item])
        else:
            result.append(item)
    return result


def text_graph(template: Template) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from((i, {"text": word.text}) for i, word in enumerate(node_words(template)))
    graph.add_edges_from(template.edges)
    return graph


def check_text(template: Template) -> None:
    parsed = read_text(describe(template).canonical)
    assert nx.is_isomorphic(parsed, text_graph(template), node_match=lambda a, b: a["text"] == b["text"])


@examples(200)
@given(template=dag_templates())
def test_text_reads_back_as_the_graph(template: Template) -> None:
    check_text(template)


@examples(200)
@given(body=bodies)
def test_text_of_loops_and_branches_reads_back(body: Body) -> None:
    template = run(body)
    if template.n_nodes <= 60:
        check_text(template)


def check_folding(structure: Structure) -> None:
    template, fold = structure.template, structure.fold_position
    names: dict[int, str] = {}
    for position, word in zip(fold, node_words(template), strict=True):
        assert names.setdefault(position, word.text) == word.text
    assert sorted(names) == list(range(len(names)))
    for loop in structure.loops:
        assert loop.count >= 2
        assert 0 <= loop.position < loop.position + loop.length <= len(names)
    folded_away = sum(loop.length * (loop.count - 1) for loop in structure.loops)
    assert (folded_away == 0) == (len(names) == template.n_nodes)
    n_words = sum(2 if w.endswith("<>") else 1 for w in tokens(structure, 1) if "/" in w)
    assert n_words == len(names)


@examples(150)
@given(template=st.one_of(dag_templates(), bodies.map(run)))
def test_folded_positions_are_the_words_of_the_text(template: Template) -> None:
    check_folding(describe(template))


@examples(150)
@given(data=st.data(), body=bodies)
def test_each_level_refines_the_next(data: st.DataObject, body: Body) -> None:
    others = [recounted(data.draw, body) for _ in range(3)]
    structures = [describe(run(b)) for b in (body, *others)]
    for a, b in combinations(structures, 2):
        if a.category == b.category:
            assert a == b
        if a.category_l1 == b.category_l1:
            assert a.canonical_l1 == b.canonical_l1
            assert a.category_l2 == b.category_l2
            assert places(a) == places(b)
        assert (a.category_l1 == b.category_l1) == (a.canonical_l1 == b.canonical_l1)
        assert (a.category_l2 == b.category_l2) == (a.canonical_l2 == b.canonical_l2)


def places(structure: Structure) -> dict[int, str]:
    """Name at each folded position."""
    words = node_words(structure.template)
    return {position: words[i].text for i, position in enumerate(structure.fold_position)}


@examples(200)
@given(data=st.data(), body=bodies)
def test_series_parallel_texts_do_not_depend_on_the_numbering(data: st.DataObject, body: Body) -> None:
    template = run(body)
    graph = nx.DiGraph(list(template.edges))
    graph.add_node(0)
    rank = data.draw(st.permutations(range(template.n_nodes)))
    order = list(nx.lexicographical_topological_sort(graph, key=lambda v: rank[v]))
    place = {v: i for i, v in enumerate(order)}
    names = [(template.component[v], template.point[v], template.label[v]) for v in order]
    edges = {(place[src], place[dst]) for src, dst in template.edges}
    other = describe(with_responses(names, edges, {place[v] for v in template.responses}))
    expected = describe(template)
    assert other.canonical == expected.canonical
    assert (other.category_l1, other.category_l2) == (expected.category_l1, expected.category_l2)
    assert places(other) == places(expected)


@examples(100)
@given(templates=st.lists(st.one_of(dag_templates(), bodies.map(run)), max_size=3))
def test_rows_read_back(templates: list[Template]) -> None:
    structures = [describe(template) for template in templates]
    assert [structure_from_row(row) for row in structures_table(structures).to_pylist()] == structures


@examples(200)
@given(data=st.data(), template=dag_templates())
def test_keys_of_all_levels_know_what_the_text_shows(data: st.DataObject, template: Template) -> None:
    """A graph and the same graph with one edge more: also where joins do not nest, keys tell them apart."""
    names = list(zip(template.component, template.point, template.label, strict=True))
    extra = set(template.edges)
    if template.n_nodes > 1:
        dst = data.draw(st.integers(1, template.n_nodes - 1))
        extra.add((data.draw(st.integers(0, dst - 1)), dst))
    other = with_responses(names, reduce_transitively(template.n_nodes, extra), set(template.responses))
    a, b = describe(template), describe(other)
    assert (a.category_l1 == b.category_l1) == (a.canonical_l1 == b.canonical_l1)
    assert (a.category_l2 == b.category_l2) == (a.canonical_l2 == b.canonical_l2)
    if not nx.is_isomorphic(text_graph(template), text_graph(other), node_match=lambda x, y: x == y):
        assert a.canonical != b.canonical


@examples(100)
@given(template=dag_templates(), data=st.data())
def test_the_oracles_reduction_is_networkx_s(template: Template, data: st.DataObject) -> None:
    n = template.n_nodes
    pairs = st.integers(0, n - 1).flatmap(lambda v: st.tuples(st.integers(0, v), st.just(v)))
    extra = {(a, b) for a, b in data.draw(st.lists(pairs, max_size=8)) if a != b}
    graph = nx.DiGraph([*template.edges, *extra])
    graph.add_nodes_from(range(n))
    assert reduce_transitively(n, set(graph.edges)) == set(nx.transitive_reduction(graph).edges)
