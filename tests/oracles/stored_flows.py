"""Flows and structures tables of generated programs, as the lake would hold them (for benchmarks and tests).

A *program* is a tree of spans whose children run in groups: members of a group in parallel, groups one after
the other. `stored_spans` and `stored_records` lay requests of many programs out as lake tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pyarrow as pa
from oracles.described import describe
from oracles.structure_rows import structures_table

from schemas.events import EventKind
from schemas.lake import FLOWS_SCHEMA
from stitch.graph.placed import END, POINT, START
from stitch.graph.template import Template


@dataclass(eq=False)
class Program:
    """One span of a program and what it calls."""

    name: str
    component: str
    groups: list[list[Program]] = field(default_factory=list)

    def size(self) -> int:
        return 1 + sum(child.size() for group in self.groups for child in group)


def random_program(rng: np.random.Generator, n_spans: int, name: str) -> Program:
    """A program with `n_spans` spans of distinct names."""
    root = Program(name, f"svc{rng.integers(8)}")
    spans = [root]
    while len(spans) < n_spans:
        parent = spans[int(rng.integers(max(0, len(spans) - 4), len(spans)))]
        child = Program(f"{name}.{len(spans)}", f"svc{rng.integers(8)}")
        if parent.groups and rng.random() < 0.4:
            parent.groups[-1].append(child)
        else:
            parent.groups.append([child])
        spans.append(child)
    return root


def span_times(rng: np.random.Generator, program: Program, start: np.ndarray) -> list[np.ndarray]:
    """Times of the nodes in depth-first order (start, children, end), each [requests] ns."""
    own = [
        rng.lognormal(11, 0.5, len(start)).astype(np.int64) + 20_000 for _ in range(len(program.groups) + 1)
    ]
    nodes = [start]
    now = start + own[0]
    for group, work in zip(program.groups, own[1:], strict=True):
        ends = []
        for child in group:
            times = span_times(rng, child, now + rng.integers(0, 5_000, len(start)))
            nodes += times
            ends.append(times[-1])
        now = np.max(ends, axis=0) + work
    return [*nodes, now]


def span_template(program: Program) -> Template:
    """The stored template of a program: siblings unordered."""
    nodes: list[tuple[Program, int, int]] = []  # (span, side, position of the parent's start)
    mate: dict[int, int] = {}
    edges: list[tuple[int, int]] = []

    def enter(span: Program, parent: int) -> tuple[int, int]:
        start = len(nodes)
        nodes.append((span, START, parent))
        ends = [enter(child, start) for group in span.groups for child in group]
        end = len(nodes)
        nodes.append((span, END, parent))
        mate[start], mate[end] = end, start
        edges.extend((start, inner) for inner, _ in ends)
        edges.extend((inner, end) for _, inner in ends)
        if not ends:
            edges.append((start, end))
        return start, end

    _, last = enter(program, -1)
    return Template(
        component=tuple(span.component for span, _, _ in nodes),
        point=tuple(span.name for span, _, _ in nodes),
        label=(None,) * len(nodes),
        kind=(int(EventKind.SPAN_INTERNAL),) * len(nodes),
        side=tuple(side for _, side, _ in nodes),
        mate=tuple(mate[at] for at in range(len(nodes))),
        parent=tuple(parent for _, _, parent in nodes),
        deferred=(False,) * len(nodes),
        edges=tuple(sorted(edges, key=lambda edge: (edge[1], edge[0]))),
        responses=(last,),
    )


def record_template(rng: np.random.Generator, n_nodes: int, name: str) -> Template:
    """A random fork-join DAG of activity records."""
    edges: list[tuple[int, int]] = []
    tails = [0]
    for node in range(1, n_nodes - 1):
        draw = rng.random()
        if draw < 0.15 and len(tails) < 4:
            edges.append((tails[0], node))
            tails.append(node)
        elif draw < 0.3 and len(tails) > 1:
            joined = {tails.pop(), tails.pop()}
            edges.extend((tail, node) for tail in joined)
            tails.append(node)
        else:
            at = int(rng.integers(len(tails)))
            edges.append((tails[at], node))
            tails[at] = node
    edges.extend((tail, n_nodes - 1) for tail in sorted(set(tails)))
    names = [(f"svc{rng.integers(8)}", f"{name}.p{at % 20}", None) for at in range(n_nodes)]
    reduced = nx.transitive_reduction(nx.DiGraph(edges))
    return Template.of_graph(names, sorted(reduced.edges), [n_nodes - 1])


def record_times(rng: np.random.Generator, template: Template, n: int) -> np.ndarray:
    """[n, nodes] times that respect the edges."""
    times = np.zeros((n, template.n_nodes), dtype=np.int64)
    for src, dst in template.edges:
        arrival = times[:, src] + rng.lognormal(11, 0.5, n).astype(np.int64)
        times[:, dst] = np.maximum(times[:, dst], arrival)
    return times


def category_sizes(n_requests: int, n_categories: int) -> list[int]:
    """Skewed sizes that add up to `n_requests`, each at least 1."""
    weight = 1 / np.arange(1, n_categories + 1) ** 0.9
    sizes = np.maximum(1, np.floor(n_requests * weight / weight.sum())).astype(int)
    sizes[0] += n_requests - sizes.sum()
    return [int(size) for size in sizes]


def stored_spans(seed: int, n_requests: int, n_categories: int, n_spans: int) -> tuple[pa.Table, pa.Table]:
    """(flows with `period`, structures) of random span programs; half of the requests in each period."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, size in enumerate(category_sizes(n_requests, n_categories)):
        program = random_program(rng, n_spans, f"op{number}")
        times = np.stack(span_times(rng, program, np.zeros(size, dtype=np.int64)), axis=1)
        parts.append((span_template(program), times))
    return lake_tables(rng, parts)


def stored_records(seed: int, n_requests: int, n_categories: int, n_nodes: int) -> tuple[pa.Table, pa.Table]:
    """The same of random record graphs."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, size in enumerate(category_sizes(n_requests, n_categories)):
        template = record_template(rng, n_nodes, f"op{number % 20}")
        parts.append((template, record_times(rng, template, size)))
    return lake_tables(rng, parts)


def lake_tables(
    rng: np.random.Generator, parts: list[tuple[Template, np.ndarray]]
) -> tuple[pa.Table, pa.Table]:
    """Tables of (template, [requests, nodes] offsets) parts."""
    structures = [describe(template) for template, _ in parts]
    sizes = [len(times) for _, times in parts]
    n = sum(sizes)
    words = sorted({component for template, _ in parts for component in template.component})
    host_codes = [
        np.tile(np.array([words.index(component) for component in template.component], np.int32), len(times))
        for template, times in parts
    ]
    bounds = np.concatenate(([0], np.cumsum(np.repeat([t.shape[1] for _, t in parts], sizes)))).astype(
        np.int32
    )
    start = rng.integers(0, 600_000_000_000, n)
    flows = pa.table(
        {
            "request_id": pa.array([f"r{row:07d}" for row in range(n)]),
            "kind": pa.array(["records"] * n).dictionary_encode(),
            "root": pa.array(np.repeat([s.root for s in structures], sizes)).dictionary_encode(),
            "start_ns": start,
            "response_ns": np.concatenate([t[:, list(p.responses)].max(axis=1) for p, t in parts]),
            "category": pa.array(np.repeat([s.category for s in structures], sizes)).dictionary_encode(),
            "offset_ns": pa.ListArray.from_arrays(bounds, np.concatenate([t.reshape(-1) for _, t in parts])),
            "host": pa.ListArray.from_arrays(
                bounds,
                pa.DictionaryArray.from_arrays(np.concatenate(host_codes), [f"h-{word}" for word in words]),
            ),
            "weight": np.ones(n),
            "weight_known": np.ones(n, dtype=np.bool_),
            "status": pa.array(["ok"] * n).dictionary_encode(),
            "inner_status": pa.nulls(n, FLOWS_SCHEMA.field("inner_status").type),
            "error_position": pa.array([[]] * n, FLOWS_SCHEMA.field("error_position").type),
            "error_class": pa.array([[]] * n, FLOWS_SCHEMA.field("error_class").type),
            "quality": np.zeros(n, dtype=np.uint32),
            "n_nodes": np.diff(bounds).astype(np.int32),
            "lane": np.zeros(n, dtype=np.int32),
        }
    )
    assert flows.column_names == FLOWS_SCHEMA.names
    sample = pa.array((start >= 300_000_000_000).astype(np.uint8))
    return flows.append_column("sample", sample), structures_table(structures)


assert POINT == 0  # Template.of_graph makes points
