"""DOT as the original Spectroscope reads it: strict reader, odd names, numbers that go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.dot_reader import Name, read_dot, read_label, read_period

from analyze.export.flows import dot_graphs, host_word, point_word, word

SIDES = {"": 0, ">": 1, "<": 2}
ODD = [
    "a__b",
    "_a",
    "a_",
    "_",
    "__",
    "Z",
    "ZZ",
    "aZ",
    "ZU",
    "aZS",
    "ZLx",
    "Z2f",
    "a/b",
    "a.b",
    "",
    "é",
    "ü\n",
    '"',
    "\\",
]

names = st.text(st.sampled_from("aZ_LSEU2f/ é\0"), max_size=6)
whole_names = st.tuples(st.none() | names, names, names, st.none() | names, st.sampled_from(["", ">", "<"]))


def label(name: Name) -> str:
    host, component, point, semantic, side = name
    return f"{host_word(host)}__{word(component)}__{point_word(point, semantic, SIDES[side])}"


def structure(nodes: list[Name], edges: list[tuple[int, int]]) -> dict[str, Any]:
    return {
        "nodes": [
            {"component": c, "point": p, "label": text, "side": SIDES[side]} for _, c, p, text, side in nodes
        ],
        "in_edges": [{"src": src, "dst": dst} for src, dst in edges],
    }


def flows(*rows: tuple[str, list[int], list[str | None]]) -> pa.Table:
    """Rows of (category, node times in ns, hosts)."""
    return pa.table(
        {
            "category": [category for category, _, _ in rows],
            "response_ns": pa.array([times[-1] for _, times, _ in rows], pa.int64()),
            "offset_ns": pa.array([times for _, times, _ in rows], pa.list_(pa.int64())),
            "host": pa.array([hosts for _, _, hosts in rows], pa.list_(pa.string())),
        }
    )


def test_a_graph_by_hand():
    nodes: list[Name] = [
        ("e10", "t3", "NFS3_NULL_CALL_TYPE", None, ""),
        (None, "t3", "GET /a", "hit", ">"),
        ("e10", "t3", "NFS3_NULL_REPLY_TYPE", None, "<"),
    ]
    known = {"k": structure(nodes, [(0, 2), (1, 2), (0, 1)])}
    (text,) = dot_graphs(flows(("k", [0, 4_381, 1_000_000], ["e10", None, "e10"])), known, first=7)
    assert text == (
        "# 7  R: 1000.000000 usecs RT: 0.000000 usecs\n"
        "Digraph G {\n"
        '7.1 [label="e10__t3__NFS3_NULL_CALL_TYPE\\nDEFAULT"]\n'
        '7.2 [label="ZU__t3__GETZ20Z2faZLhitZS\\nDEFAULT"]\n'
        '7.3 [label="e10__t3__NFS3_NULL_REPLY_TYPEZE\\nDEFAULT"]\n'
        '7.1 -> 7.2 [label="R: 4.381000 us"]\n'
        '7.1 -> 7.3 [label="R: 1000.000000 us"]\n'
        '7.2 -> 7.3 [label="R: 995.619000 us"]\n'
        "}\n"
        "\n"
    )


@given(whole_names)
def test_every_label_is_read_back(name: Name):
    text = label(name)
    assert text.isascii()
    assert text.replace("_", "a").isalnum()
    assert read_label(text) == name


def test_odd_names_get_labels_of_their_own():
    every: list[Name] = [
        (host, component, point, semantic, side)
        for host in (None, *ODD[:6])
        for component in ODD
        for point in ODD
        for semantic in (None, "", "ZS", "a")
        for side in SIDES
    ]
    assert len({label(name) for name in every}) == len(every)


def test_names_without_odd_characters_stay_as_they_are():
    assert label(("e10", "t3", "NFS3_NULL_CALL_TYPE", None, "")) == "e10__t3__NFS3_NULL_CALL_TYPE"


@given(
    st.lists(st.tuples(whole_names, st.integers(-(10**6), 10**12)), min_size=2, max_size=7),
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
)
def test_graphs_survive_the_way_through_a_file(drawn: list[tuple[Name, int]], seed: int, copies: int):
    rng = np.random.default_rng(seed)
    nodes, times = [name for name, _ in drawn], [0, *(ns for _, ns in drawn[1:])]
    edges = sorted({(int(rng.integers(0, dst)), dst) for dst in range(1, len(nodes)) for _ in range(2)})
    table = flows(*[("k", times, [name[0] for name in nodes])] * copies)
    text = "".join(dot_graphs(table, {"k": structure(nodes, edges)})).encode()
    found = read_dot(text)
    assert [graph.number for graph in found] == list(range(1, copies + 1))
    for graph in found:
        assert text[graph.offset :].startswith(f"# {graph.number} ".encode())
        assert graph.response_us == max(times[-1], 0) / 1e3
        assert [read_label(found) for found in graph.labels.values()] == nodes
        got = [(int(a.split(".")[1]) - 1, int(b.split(".")[1]) - 1, us) for a, b, us in graph.edges]
        wanted = [(s, d, max(times[d] - times[s], 0) / 1e3) for s, d in sorted(edges, key=lambda e: e[::-1])]
        assert got == wanted


def test_parts_number_on_and_leave_out_what_has_no_edge():
    known = {
        "k": structure([(None, "c", "a", None, ""), (None, "c", "b", None, "")], [(0, 1)]),
        "one": structure([(None, "c", "a", None, "")], []),
    }
    pair, single = ("k", [0, 5], [None, None]), ("one", [0], [None])
    first = list(dot_graphs(flows(pair, single, pair), known))
    second = list(dot_graphs(flows(single, pair), known, first=len(first) + 1))
    assert [graph.number for graph in read_dot("".join(first + second).encode())] == [1, 2, 3]


GRAPH = (
    "# 1  R: 5.000000 usecs RT: 0.000000 usecs\nDigraph G {\n"
    '1.1 [label="h__c__a\\nDEFAULT"]\n1.2 [label="h__c__b\\nDEFAULT"]\n'
    '1.1 -> 1.2 [label="R: 5.000000 us"]\n}\n'
)


def test_the_reader_reads_a_right_file():
    second = GRAPH.replace("# 1 ", "# 2 ")
    assert [graph.number for graph in read_dot(f"{GRAPH}\n{second}".encode())] == [1, 2]
    assert len(read_period([GRAPH.encode()] * 10)) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        GRAPH + GRAPH.replace("# 1 ", "# 2 "),  # no empty line: every request would be looked for at byte 0
        f"{GRAPH}\n{GRAPH}",  # a number twice
        GRAPH.replace("1.1", "1").replace("1.2", "2"),
        GRAPH.replace("h__c__a", "h__c__GET /a"),
        GRAPH.replace("h__c__a", "h__c__é"),
        GRAPH.replace("# 1  R", "# 1 R"),
        GRAPH.replace("R: 5.000000 us]", "R: -5.000000 us]").replace('R: 5.000000 us"', 'R: -5.000000 us"'),
        GRAPH.replace("\\nDEFAULT", "\nDEFAULT"),
        GRAPH.replace('1.1 -> 1.2 [label="R: 5.000000 us"]\n', ""),
        GRAPH.replace("Digraph", "digraph"),
    ],
)
def test_the_reader_refuses_what_the_original_misreads(wrong: str):
    with pytest.raises(AssertionError):
        read_dot(wrong.encode())


def test_the_reader_takes_ten_files_a_period():
    with pytest.raises(AssertionError, match="11 files"):
        read_period([GRAPH.encode()] * 11)
