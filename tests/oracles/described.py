"""One structure by itself, with its key and all its texts: the slow way to what `stitch.structures` and
`stitch.readings` make of whole batches."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from itertools import chain
from operator import ge

from stitch.graph.folding import fold_levels, node_words
from stitch.graph.pieces import COPIES, LOOP, NODE, SPAN, Pieces, walk
from stitch.graph.series_parallel import decompose
from stitch.graph.template import Template, name_bytes, structure_key
from stitch.graph.text import Reading, read_graph, split_words, write_text


@dataclass(frozen=True, slots=True)
class FoldedLoop:
    """One loop folded at L1."""

    position: int
    """First folded position of the body."""
    length: int
    """Folded positions in the body."""
    count: int
    """Iterations, exact."""
    parallel: bool


@dataclass(frozen=True, slots=True)
class Structure(Reading):
    """A template with its key, its reading, and how it is folded."""

    canonical_l2: str
    fold_position: tuple[int, ...]
    """Folded position at L1 of each node: rank of its word in the L1 text."""
    loops: tuple[FoldedLoop, ...]
    """An outer one before those inside it; an inner one once for each time it runs."""
    category: str
    """L0 key, 32 hex digits: equal iff the templates are equal."""
    template: Template

    @property
    def root(self) -> str:
        """Root type, `component/point` of node 0."""
        return self.template.root


def describe(template: Template) -> Structure:
    """Key and reading of one structure. Pure.

    Raises ValueError when the template has no node, or its positions are not a topological order from node 0.
    """
    check(template)
    n, words = template.n_nodes, node_words(template)
    reading = read_graph(template.edges, template.mate, template.deferred, words)
    told = {field.name: getattr(reading, field.name) for field in fields(reading)}
    _, l1, l2 = fold_levels(decompose(n, template.edges, template.mate, template.deferred), words)
    fold_position, loops = positions(l1.pieces, n)
    return Structure(
        **told,
        canonical_l2=write_text(l2.pieces, 2, n),
        fold_position=fold_position,
        loops=loops,
        category=template_key(template),
        template=template,
    )


def positions(pieces: Pieces, n_nodes: int) -> tuple[tuple[int, ...], tuple[FoldedLoop, ...]]:
    """[nodes] folded position of each node, and the loops."""
    fold = [0] * n_nodes
    loops = []
    for piece, base in walk(pieces):
        if piece.kind == NODE:
            fold[piece.start] = base
        elif piece.kind == SPAN:
            fold[piece.start] = base
            fold[piece.end] = base + piece.size - 1
        elif piece.kind in (LOOP, COPIES):
            loops.append(FoldedLoop(base, piece.size, len(piece.branches), piece.kind == COPIES))
    return tuple(fold), tuple(loops)


def check(template: Template) -> None:
    """Raise ValueError unless positions are a topological order and node 0 is the only source."""
    n = template.n_nodes
    if n == 0:
        raise ValueError("A template needs at least one node.")
    if not template.edges:
        reached = set()
    else:
        sources, targets = zip(*template.edges, strict=True)
        reached = set(targets)
        # By map and not in a loop of Python: this is done for every structure.
        if any(map(ge, sources, targets)) or min(sources) < 0 or max(reached) >= n:
            raise ValueError("Template edges must go from a lower to a higher position.")
    if len(reached) != n - 1:
        raise ValueError("Every node of a template but node 0 needs a predecessor.")


def template_key(template: Template) -> str:
    """L0 category key, 32 hex digits. Equal iff every column of the template is equal (2^-128)."""
    n, n_edges, n_responses = len(template.kind), len(template.edges), len(template.responses)
    numbers = struct.pack(
        f"<{n}B{n}B{n}?{n}i{n}i{2 * n_edges}I{n_responses}I",
        *template.kind,
        *template.side,
        *template.deferred,
        *template.mate,
        *template.parent,
        *chain.from_iterable(template.edges),
        *template.responses,
    )
    names = map(name_bytes, template.component, template.point, template.label)
    return structure_key((n, n_edges, n_responses), (numbers,), names)


def tokens(structure: Structure, level: int = 1) -> tuple[str, ...]:
    """Words of the canonical text at level 0, 1 or 2, for the edit distance.

    Brackets and counts are words of their own: `(`, `)*4`, `{`, `|`, `}`, `&{`, `*8`, `^3`.
    """
    return split_words((structure.canonical, structure.canonical_l1, structure.canonical_l2)[level])
