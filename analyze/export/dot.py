"""Flows as DOT, one graph after another, in the form the released Spectroscope reads (ALGORITHMS B.1b).

# <id>  R: <response> usecs RT: 0.000000 usecs
Digraph G {
<id> [label="<host>__<component>__<point>\\nDEFAULT"]
<id> -> <id> [label="R: <latency> us"]
}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from stitch.graph.placed import END, POINT, START

SIDE_MARK: Final = {POINT: "", START: ">", END: "<"}
"""What the two nodes of a span add to the name of its operation."""

# DOT text inside double quotes; `__` separates the parts of a label, so it may not occur in one.
_ESCAPES = str.maketrans({'"': "'", "\\": "/", "\n": " ", "\r": " ", "\0": " "})


def _word(text: str | None) -> str:
    return (text or "unknown").translate(_ESCAPES).replace("__", "_")


def _point(node: Mapping[str, object]) -> str:
    label = f"/{node['label']}" if node["label"] is not None else ""
    side = node["side"]
    return f"{node['point']}{label}{SIDE_MARK[side] if isinstance(side, int) else ''}"


def dot_graphs(flows: pa.Table, structures: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """One DOT graph a flow, in the order of `flows` (FLOWS_SCHEMA); ids count from 1 inside a graph.

    `structures` maps a category to its row (STRUCTURES_SCHEMA as a dict). Deferred nodes are part of the
    graph, as in the original's input. Latencies are microseconds with three decimals, negative ones
    (clock skew) 0. O(nodes + edges).
    """
    forms: dict[str, tuple[str, np.ndarray, list[str]]] = {}
    rows = zip(
        flows["category"].to_pylist(),
        flows["response_ns"].to_pylist(),
        (row.values.to_numpy() for row in flows["offset_ns"]),
        flows["host"].to_pylist(),
        strict=True,
    )
    for number, (category, response_ns, offsets, hosts) in enumerate(rows, start=1):
        form = forms.get(category)
        if form is None:
            form = forms[category] = _form(structures[category])
        template, edges, labels = form
        latencies = np.maximum(offsets[edges[:, 1]] - offsets[edges[:, 0]], 0) / 1e3
        names = [f"{_word(host)}__{label}" for host, label in zip(hosts, labels, strict=True)]
        yield template % (number, response_ns / 1e3, *names, *latencies.tolist())


def _form(structure: Mapping[str, object]) -> tuple[str, np.ndarray, list[str]]:
    """Format string of a category's graphs, its edges [e, 2], and the constant part of its node labels."""
    nodes, in_edges = structure["nodes"], structure["in_edges"]
    assert isinstance(nodes, list)
    assert isinstance(in_edges, list)
    edges = np.array([(edge["src"], edge["dst"]) for edge in in_edges], dtype=np.int64).reshape(-1, 2)
    labels = [f"{_word(node['component'])}__{_word(_point(node))}" for node in nodes]
    lines = ["# %d  R: %.6f usecs RT: 0.000000 usecs", "Digraph G {"]
    lines += [f'{position} [label="%s\\nDEFAULT"]' for position in range(1, len(nodes) + 1)]
    lines += [f'{src + 1} -> {dst + 1} [label="R: %.6f us"]' for src, dst in edges.tolist()]
    return "\n".join([*lines, "}", ""]), edges, labels
