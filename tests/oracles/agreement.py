"""Does the kernel's output say the same as the oracle's? Differences as sentences, none if they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import networkx as nx
import pyarrow as pa
from networkx.algorithms.isomorphism import DiGraphMatcher
from oracles.plain_flow import PlainFlow
from oracles.stitcher import PlainResult

from schemas.quality import Quality

MAX_MATCHED_NODES = 64
"""Larger flows are compared by colour refinement over labels and times instead of by isomorphism."""


def disagreements(flows: pa.Table, structures: pa.Table, oracle: PlainResult) -> Iterator[str]:
    """Every difference between the kernel's tables and the oracle's flows."""
    described = {row["category"]: row for row in structures.to_pylist()}
    plain = oracle.by_request()
    rows = flows.to_pylist()
    ours = [(row["request_id"], row["kind"]) for row in rows]
    if sorted(ours) != sorted((flow.request_id, flow.kind) for flow in oracle.flows):
        yield f"requests: kernel {sorted(ours)}, oracle {sorted(plain)}"
        return
    same: dict[str, int] = {}
    back: dict[int, str] = {}
    for row in rows:
        flow = plain[row["request_id"], row["kind"]]
        structure = described[row["category"]]
        yield from _compare_any(row, structure, flow)
        colour = flow.category()
        if same.setdefault(row["category"], colour) != colour:
            yield f"{flow.request_id}: in a category with flows that the oracle calls different"
        if back.setdefault(colour, row["category"]) != row["category"]:
            yield f"{flow.request_id}: not in the category of flows that the oracle calls equal"


def _compare_any(row: dict[str, Any], structure: dict[str, Any], flow: PlainFlow) -> list[str]:
    """Compare with each choice of response that the rules allow; the first that fits stays chosen."""
    found: list[str] = []
    for choice in range(len(flow.choices)):
        flow.chosen = choice
        found = list(_compare(row, structure, flow))
        if not found:
            break
    return found


def _compare(row: dict[str, Any], structure: dict[str, Any], flow: PlainFlow) -> Iterator[str]:
    who = flow.request_id
    for column, expected in (
        ("n_nodes", len(flow.nodes)),
        ("start_ns", flow.start_ns),
        ("response_ns", flow.response_ns),
        ("weight_known", flow.weight_known),
    ):
        if row[column] != expected:
            yield f"{who}: {column} is {row[column]}, oracle {expected}"
    if row["quality"] != flow.quality:
        yield f"{who}: quality {Quality(row['quality'])!r}, oracle {Quality(flow.quality)!r}"
    if not math.isclose(row["weight"], flow.weight):
        yield f"{who}: weight {row['weight']}, oracle {flow.weight}"
    if (status := (row["status"], row["inner_status"])) not in flow.statuses():
        yield f"{who}: status {status}, oracle {flow.statuses()}"
    root = flow.nodes[flow.root].name
    if row["root"] != f"{root[0]}/{root[1]}":
        yield f"{who}: root {row['root']}, oracle {root}"
    ours, theirs = kernel_graph(row, structure), plain_graph(flow)
    if ours.number_of_edges() != theirs.number_of_edges():
        yield f"{who}: edges {sorted(ours.edges)}, oracle {sorted(theirs.edges)}"
    elif not same_graph(ours, theirs):
        yield f"{who}: graphs differ: {_listing(ours)} oracle {_listing(theirs)}"


def kernel_graph(row: dict[str, Any], structure: dict[str, Any]) -> nx.DiGraph:
    """A row of flows with its structure, with times, hosts, errors, parents and mates as `instance`."""
    graph = nx.DiGraph()
    responses = set(structure["responses"])
    errors = dict(zip(row["error_position"], row["error_class"], strict=True))
    for i, node in enumerate(structure["nodes"]):
        label = (
            *(node[column] for column in ("component", "point", "label", "kind", "side", "deferred")),
            i in responses,
        )
        ts_ns = row["start_ns"] + row["offset_ns"][i]
        graph.add_node(i, label=label, instance=(ts_ns, row["host"][i], errors.get(i, "ok")))
    for i, node in enumerate(structure["nodes"]):
        relatives = relatives_of(graph, node["parent"], node["mate"])
        graph.nodes[i]["instance"] += relatives
    graph.add_edges_from((edge["src"], edge["dst"]) for edge in structure["in_edges"])
    return graph


def plain_graph(flow: PlainFlow) -> nx.DiGraph:
    """The oracle's flow in the same form."""
    graph = flow.to_networkx()
    for i, node in enumerate(flow.nodes):
        graph.nodes[i]["instance"] += relatives_of(graph, node.parent, node.mate)
    return graph


def relatives_of(graph: nx.DiGraph, parent: int, mate: int) -> tuple[Any, Any]:
    """Name and time of a node's parent and mate, None for none."""
    a, b = (
        None if i < 0 else (graph.nodes[i]["label"], graph.nodes[i]["instance"][0]) for i in (parent, mate)
    )
    return a, b


def same_graph(a: nx.DiGraph, b: nx.DiGraph) -> bool:
    """Isomorphic with labels, times and hosts."""
    if refined_colours(a, "label", "instance") != refined_colours(b, "label", "instance"):
        return False
    if a.number_of_nodes() > MAX_MATCHED_NODES:
        return True
    return DiGraphMatcher(a, b, node_match=lambda x, y: x == y).is_isomorphic()


def refined_colours(graph: nx.DiGraph, *attributes: str, rounds: int = 3) -> list[int]:
    """Sorted colours after some rounds of refinement from node attributes; equal for isomorphic graphs."""
    colour = {v: hash(tuple(data[a] for a in attributes)) for v, data in graph.nodes(data=True)}
    for _ in range(rounds):
        colour = {
            v: hash(
                (
                    colour[v],
                    tuple(sorted(colour[u] for u in graph.predecessors(v))),
                    0.5,
                    tuple(sorted(colour[u] for u in graph.successors(v))),
                )
            )
            for v in graph
        }
    return sorted(colour.values())


def _listing(graph: nx.DiGraph) -> str:
    nodes = sorted(f"{data['instance']} {data['label']}" for _, data in graph.nodes(data=True))
    names = {v: f"{data['label'][1]}@{data['instance'][0]}" for v, data in graph.nodes(data=True)}
    return f"{nodes} {sorted((names[a], names[b]) for a, b in graph.edges)}"
