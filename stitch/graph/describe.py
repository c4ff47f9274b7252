"""What the lake says about a structure: category keys of levels L0-L2, canonical texts, folding of loops.

`describe` runs once a distinct structure, never once a flow (ALGORITHMS A.3, A.4).
"""

from __future__ import annotations

from dataclasses import dataclass

from stitch.graph.folding import LoopRow, fold_levels
from stitch.graph.key import template_key
from stitch.graph.series_parallel import decompose
from stitch.graph.template import Template, check
from stitch.graph.text import split_words, write_text


@dataclass(frozen=True, slots=True)
class Structure:
    """One row of `STRUCTURES_SCHEMA`: a template with its keys, texts and folding."""

    category: str
    """L0 key, 32 hex digits: equal iff the templates are equal."""
    canonical: str
    template: Template
    category_l1: str
    canonical_l1: str
    category_l2: str
    canonical_l2: str
    fold_position: tuple[int, ...]
    """Folded position at L1 of each node: rank of its word in the L1 text."""
    loops: tuple[LoopRow, ...]
    """Loops folded at L1, an outer one before those inside it; an inner one once for each time it runs."""

    @property
    def root(self) -> str:
        """Root type, `component/point` of node 0."""
        return self.template.root


def describe(template: Template) -> Structure:
    """Keys, texts and folding of one structure. Pure; about 8 µs a node, linear (A.3, A.4).

    Raises ValueError when the template has no node, or its positions are not a topological order from node 0.
    """
    check(template)
    tree = decompose(template.n_nodes, template.edges, template.mate, template.deferred)
    l0, l1, l2 = fold_levels(tree, template)
    canonical = write_text(l0.pieces, 0, template.n_nodes)
    canonical_l1 = canonical if l1.pieces is l0.pieces else write_text(l1.pieces, 1, template.n_nodes)
    canonical_l2 = canonical_l1 if l2.pieces is l1.pieces else write_text(l2.pieces, 2, template.n_nodes)
    fold_position, loops = l1.positions(template.n_nodes)
    return Structure(
        category=template_key(template),
        canonical=canonical,
        template=template,
        category_l1=l1.key,
        canonical_l1=canonical_l1,
        category_l2=l2.key,
        canonical_l2=canonical_l2,
        fold_position=fold_position,
        loops=loops,
    )


def tokens(structure: Structure, level: int = 1) -> tuple[str, ...]:
    """Words of the canonical text at level 0, 1 or 2, for the edit distance (C.5).

    Brackets and counts are words of their own: `(`, `)*4`, `{`, `|`, `}`, `&{`, `*8`, `^3`.
    """
    return split_words((structure.canonical, structure.canonical_l1, structure.canonical_l2)[level])
