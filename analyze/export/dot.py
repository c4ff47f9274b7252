"""Write flows as DOT, one graph after another, as the released Spectroscope reads it (ALGORITHMS B.1b).

# <request>  R: <response> usecs RT: 0.000000 usecs
Digraph G {
<request>.<node> [label="<host>__<component>__<point>\\nDEFAULT"]
<request>.<node> -> <request>.<node> [label="R: <latency> us"]
}

and an empty line: a reader that finds none between two graphs takes every request to begin at byte 0.

Labels hold only A-Z, a-z, 0-9 and `_`, and nothing is lost. Their parts keep letters, digits and single
underscores inside; `Z` begins what stands for anything else, so that unlike names never get one label and
every label can be read back (`tests/oracles/dot_reader.py` does):

    ZZ      the letter Z
    Z2f     a byte of UTF-8, two lower-case hex digits: here `/`
    ZL      what follows is the node's semantic label
    ZS, ZE  the start, the end of a span (last in a label)
    ZU      a host that nobody recorded (the whole part)

`_` is a byte to be written so where it begins or ends a part or stands beside another one: `__` is then
always the border of two parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.arrays import I8
from stitch.graph.placed import END, POINT, START

_REQUEST: Final = "\0"
"""Stands for the request's number in a form; no label can hold it."""

_UNKNOWN_HOST: Final = "ZU"
_SEMANTIC: Final = "ZL"
_SIDE: Final = {POINT: "", START: "ZS", END: "ZE"}

_ODD: Final = re.compile(r"Z|[^A-Za-z0-9_]|(?<![^_])_|_(?![^_])")


@dataclass(frozen=True, slots=True)
class _Form:
    """What the graphs of one category share."""

    text: str
    """Format string: request number, response, one host a node, one latency an edge."""
    edges: I8
    """[edges, 2] (src, dst)"""


def dot_graphs(
    flows: pa.Table, structures: Mapping[str, Mapping[str, Any]], *, first: int = 1
) -> Iterator[str]:
    """One DOT graph a flow that has an edge, in the order of `flows` (FLOWS_SCHEMA), numbered from `first`.

    `structures` maps a category to its row (STRUCTURES_SCHEMA as a dict). Deferred nodes are part of the
    graph, as in the original's input. Edges go by (dst, src): the first one begins at the root, as the
    original wants it. A flow of a single node is left out: the original stops at a graph without edges.
    Times are microseconds to the nanosecond, negative ones (clock skew) 0. O(nodes + edges).
    """
    forms: dict[str, _Form | None] = {}
    known_host = cache(host_word)
    rows = zip(
        flows["category"].to_pylist(),
        flows["response_ns"].to_pylist(),
        (row.values.to_numpy() for row in flows["offset_ns"]),
        flows["host"].to_pylist(),
        strict=True,
    )
    number = first
    for category, response_ns, offsets, hosts in rows:
        if category not in forms:
            forms[category] = _form(structures[category])
        form = forms[category]
        if form is None:
            continue
        latencies = np.maximum(offsets[form.edges[:, 1]] - offsets[form.edges[:, 0]], 0) / 1e3
        graph = form.text % (number, max(response_ns, 0) / 1e3, *map(known_host, hosts), *latencies.tolist())
        yield graph.replace(_REQUEST, str(number))
        number += 1


def _form(structure: Mapping[str, Any]) -> _Form | None:
    """The form of a category's graphs; None where it has no edge."""
    pairs = sorted(((edge["src"], edge["dst"]) for edge in structure["in_edges"]), key=lambda e: (e[1], e[0]))
    if not pairs:
        return None
    labels = [
        f"{word(node['component'])}__{point_word(node['point'], node['label'], node['side'])}"
        for node in structure["nodes"]
    ]
    lines = ["# %d  R: %.6f usecs RT: 0.000000 usecs", "Digraph G {"]
    lines += [
        f'{_REQUEST}.{position} [label="%s__{label}\\nDEFAULT"]' for position, label in enumerate(labels, 1)
    ]
    lines += [f'{_REQUEST}.{src + 1} -> {_REQUEST}.{dst + 1} [label="R: %.6f us"]' for src, dst in pairs]
    return _Form("\n".join([*lines, "}", "", ""]), np.array(pairs, dtype=np.int64))


def word(name: str) -> str:
    """One part of a label."""
    return _ODD.sub(_written, name)


def _written(odd: re.Match[str]) -> str:
    char = odd[0]
    return "ZZ" if char == "Z" else "".join(f"Z{byte:02x}" for byte in char.encode())


def host_word(host: str | None) -> str:
    """The part that names a host."""
    return _UNKNOWN_HOST if host is None else word(host)


def point_word(point: str, label: str | None, side: int) -> str:
    """The part that names a trace point: with its semantic label, and which end of a span it is."""
    semantic = "" if label is None else _SEMANTIC + word(label)
    return word(point) + semantic + _SIDE[side]
