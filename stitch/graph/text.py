"""Canonical text of a folded structure: for people, and as words for the edit distance.

    sequence  = item { " " item }
    item      = node | parallel | spawn | loop | revisit
    node      = word ">" | word "<" | word "<>" | word           flags `~`, `!` before; see `pieces`
    parallel  = "{ " branch { " | " branch } " }"                what follows waits for every branch
    spawn     = "&{ " branch { " | " branch } " }"               nothing waits for these
    branch    = sequence [ " *" count ]                          identical branches
    loop      = "( " sequence " )*" count
    revisit   = "^" k                                            an edge to the k-th node of the text
    count     = digits [ "+" ]                                   L0 exact, L1 a power of two, L2 "2+"

Every item follows the open ends of the item before it (edges lead from there): the open end of a node is the
node, those of a parallel block are those of its branches, those of a spawn are those of the item before it; a
revisit has none. Nodes are counted as printed, from 1; `op<>` counts as two, a loop's body once. A revisit
inside a loop means the same iteration.

A text is made once per distinct structure, never once per flow; `stitch.structures` computes the structure's
key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from stitch.graph.folding import fold_levels
from stitch.graph.pieces import (
    COPIES,
    LOOP,
    NODE,
    PARALLEL,
    REFERENCE,
    SPAN,
    Pieces,
    StructurePiece,
    Word,
    node_piece,
    shown_count,
)
from stitch.graph.series_parallel import decompose

MAX_TEXT_CHARS = 65_536
"""Maximum characters of a text; a longer text is cut between words and ends in `…+<nodes left out>`. Keys and
folding are not affected."""
_REVISIT_CHARS = 8
"""Characters reserved for a revisit (`^k`), as k is known only when the text is complete."""
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')


def write_text(pieces: Pieces, level: int, n_nodes: int) -> str:
    """Write the canonical text of a folded sequence, with counts as shown at `level`; at most MAX_TEXT_CHARS
    long."""
    words, order, revisits = _spell(pieces, level, n_words=sys.maxsize)
    n_chars = sum(map(len, words)) + len(words)
    if n_chars + _REVISIT_CHARS * len(revisits) > MAX_TEXT_CHARS:
        lengths = [_REVISIT_CHARS if word == "^" else len(word) + 1 for word in words]
        n_fitting = sum(total <= MAX_TEXT_CHARS for total in accumulate(lengths))
        if n_fitting < len(words):
            # Keep the word that exceeds the bound: a text is never empty.
            words, order, revisits = _spell(pieces, level, n_words=n_fitting + 1)
            words.append(f"…+{n_nodes - len(order)}")
    if revisits:
        ordinal = {position: number for number, position in enumerate(order, start=1)}
        for at, target in revisits:
            words[at] = f"^{ordinal.get(target, '…')}"
    return " ".join(words)


def _spell(pieces: Pieces, level: int, n_words: int) -> tuple[list[str], list[int], list[tuple[int, int]]]:
    """Spell out `pieces`: (first `n_words` words, positions of the nodes that they print, revisits as `(index
    of the word, position of the join)`)."""
    words: list[str] = []
    order: list[int] = []
    revisits: list[tuple[int, int]] = []
    stack: list[StructurePiece | str] = [*reversed(pieces)]
    stands_for, say, take = order.append, words.append, stack.pop  # bound once: this loop is over all nodes
    while stack and len(words) < n_words:
        item = take()
        if isinstance(item, str):
            say(item)
        elif item.kind == NODE:
            stands_for(item.start)
            say(item.words[0].text)
        elif item.kind == REFERENCE:
            revisits.append((len(words), item.start))
            say("^")
        elif item.kind == SPAN:
            start, end = item.words
            stands_for(item.start)
            if not item.branches[0] and start.name == end.name and start.flags == end.flags:
                stands_for(item.end)
                say(f"{start.flags}{start.name}<>")
            else:
                say(start.text)
                stack.append(node_piece(item.end, end))
                stack += reversed(item.branches[0])
        else:
            _open_branches(item, level, words, stack)
    return words, order, revisits


def _open_branches(
    item: StructurePiece, level: int, words: list[str], stack: list[StructurePiece | str]
) -> None:
    if item.kind in (LOOP, COPIES):
        count = f"*{shown_count(len(item.branches), level)}{'+' if level == 2 else ''}"
        stack.append(f"){count}" if item.kind == LOOP else count)
        stack.extend(reversed(item.branches[0]))
        if item.kind == LOOP:
            words.append("(")
        return
    words.append("{" if item.kind == PARALLEL else "&{")
    stack.append("}")
    for i, branch in enumerate(reversed(item.branches)):
        if i:
            stack.append("|")
        stack.extend(reversed(branch))


def split_words(text: str) -> tuple[str, ...]:
    """Split a canonical text into words; a quoted name is part of one word."""
    return tuple(_WORD.findall(text))


@dataclass(frozen=True, slots=True)
class Reading:
    """Texts of a structure at L0, L1 and L2, and its keys at L1 and L2."""

    canonical: str
    category_l1: str
    canonical_l1: str
    category_l2: str


def read_graph(
    edges: Sequence[tuple[int, int]], mate: Sequence[int], deferred: Sequence[bool], words: list[Word]
) -> Reading:
    """Write the texts and compute the keys of a graph. words: [nodes] in topological order; edges, mate,
    deferred: as in `decompose`. Linear, 7 to 10 µs per node."""
    n_nodes = len(words)
    tree = decompose(n_nodes, edges, mate, deferred)
    l0, l1, l2 = fold_levels(tree, words)
    canonical = write_text(l0.pieces, 0, n_nodes)
    canonical_l1 = canonical if l1.pieces is l0.pieces else write_text(l1.pieces, 1, n_nodes)
    return Reading(
        canonical=canonical,
        category_l1=l1.key,
        canonical_l1=canonical_l1,
        category_l2=l2.key,
    )
