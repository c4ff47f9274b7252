"""One structure by itself, with its key and all its texts: the slow way to what `stitch.structures` and
`stitch.readings` make of whole batches."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from itertools import chain
from operator import ge

from stitch.graph.folding import node_words
from stitch.graph.template import Template, name_bytes, structure_key
from stitch.graph.text import Reading, read_graph, split_words


@dataclass(frozen=True, slots=True)
class Structure(Reading):
    """A template with its key and its reading."""

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
    reading = read_graph(template.edges, template.mate, template.deferred, node_words(template))
    told = {field.name: getattr(reading, field.name) for field in fields(reading)}
    return Structure(**told, category=template_key(template), template=template)


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
