"""A reader of DOT as strict as the original Spectroscope, and nothing else.

It goes line by line with regular expressions and sees bytes, as a Perl script does: `\\w` is ASCII. What the
original would take wrongly without a word (a graph at byte 0, a number twice) is an error here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = re.compile(rb"# (\d+)  R: (\d+\.\d{6}) usecs RT: 0\.000000 usecs\n")
OPENING = re.compile(rb"Digraph G \{\n")
NODE = re.compile(rb'(\d+)\.(\d+) \[label="([A-Za-z0-9_]+)\\nDEFAULT"\]\n')
EDGE = re.compile(rb'(\d+)\.(\d+) -> (\d+)\.(\d+) \[label="R: (\d+\.\d{6}) us"\]\n')
CLOSING = re.compile(rb"\}\n")
EMPTY = re.compile(rb"\n")

MOST_FILES = 10
"""The original takes no more files of one period."""


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """One request."""

    number: int
    offset: int
    """Byte of the file at which the original would look for it."""
    response_us: float
    labels: dict[str, str]
    """Node id -> whole label."""
    edges: tuple[tuple[str, str, float], ...]
    """(source id, destination id, latency in µs), in the order of the file."""

    def named_edges(self) -> list[tuple[str, str, float]]:
        """Edges by label: all that the original's analysis sees."""
        return [(self.labels[src], self.labels[dst], us) for src, dst, us in self.edges]


def read_period(files: Sequence[bytes]) -> list[ReadGraph]:
    """Graphs of all files of a period; numbers must be unique in each."""
    assert len(files) <= MOST_FILES, f"{len(files)} files"
    return [graph for text in files for graph in read_dot(text)]


def read_dot(text: bytes) -> list[ReadGraph]:
    """All graphs of a file, in order. AssertionError where the original would misread it or stop."""
    lines = text.splitlines(keepends=True)
    graphs: list[ReadGraph] = []
    at = position = offset = 0

    def take(pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        nonlocal at, position
        match = pattern.fullmatch(lines[at]) if at < len(lines) else None
        if match is not None:
            position += len(lines[at])
            at += 1
        return match

    def need(pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        match = take(pattern)
        assert match is not None, f"line {at + 1}: {lines[at : at + 1]} is not {pattern.pattern!r}"
        return match

    while at < len(lines):
        if take(EMPTY):
            # The place of the next graph is noted here, and only here: it is the line after an empty one.
            offset = position
            continue
        assert offset == position, f"line {at + 1}: no empty line before this graph"
        head = need(HEADER)
        need(OPENING)
        labels: dict[str, str] = {}
        while node := take(NODE):
            name = f"{node[1].decode()}.{node[2].decode()}"
            assert name not in labels
            labels[name] = node[3].decode()
        edges = []
        while edge := take(EDGE):
            src, dst = (f"{edge[i].decode()}.{edge[i + 1].decode()}" for i in (1, 3))
            edges.append((src, dst, float(edge[5])))
        assert edges, "the original stops at a request without edges"
        need(CLOSING)
        graphs.append(ReadGraph(int(head[1]), offset, float(head[2]), labels, tuple(edges)))
    _check(graphs)
    return graphs


def _check(graphs: list[ReadGraph]) -> None:
    """What no line shows by itself."""
    numbers = [graph.number for graph in graphs]
    assert len(set(numbers)) == len(numbers), "a request number twice"
    for graph in graphs:
        used = {end for src, dst, _ in graph.edges for end in (src, dst)}
        assert used == set(graph.labels), "a node without edge, or an edge to nowhere"
        sources = used - {dst for _, dst, _ in graph.edges}
        assert sources == {graph.edges[0][0]}, "the first edge must begin at the root"
        # Parts of the original take the two numbers of an id together, without the point.
        assert len({name.replace(".", "") for name in graph.labels}) == len(graph.labels)


Name = tuple[str | None, str, str, str | None, str]
"""(host, component, point, semantic label, side: "", ">" or "<")."""


_TOKEN = re.compile(r"ZZ|Z[0-9a-f]{2}|ZL|ZS|ZE|[^Z]")


def read_label(text: str) -> Name:
    """The names that were written as a label, by the table of `analyze/export/flows.py`."""
    host, component, point = text.split("__", 2)
    assert "__" not in point
    tokens = _tokens(point)
    side = {"ZS": ">", "ZE": "<"}.get(tokens[-1] if tokens else "", "")
    if side:
        tokens.pop()
    semantic = None
    if "ZL" in tokens:
        at = tokens.index("ZL")
        tokens, semantic = tokens[:at], _plain(tokens[at + 1 :])
    known = None if host == "ZU" else _plain(_tokens(host))
    return known, _plain(_tokens(component)), _plain(tokens), semantic, side


def _tokens(part: str) -> list[str]:
    tokens = _TOKEN.findall(part)
    assert "".join(tokens) == part, f"{part} is not a part of a label"
    return tokens


def _plain(tokens: list[str]) -> str:
    return b"".join(
        b"Z" if token == "ZZ" else bytes.fromhex(token[1:]) if token[0] == "Z" else token.encode()
        for token in tokens
    ).decode()
