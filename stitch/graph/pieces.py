"""Pieces: the nested parts of a structure – nodes, spans, branches, loops – as folded at one level.

The level (L0, L1 or L2) says how exactly the counts of loops are kept. Each piece has a symbol, a digest of
its folded form: the search for repeats compares symbols instead of pieces, and the symbol of the whole
structure is the category key at that level.

As text, a node reads `component/point[/label]` with flags before it and its side after it:

* `~`: the node is deferred, i.e. the response does not wait for it.
* `!`: the node is an exception to the rule that the response leaves from exactly those nodes that are neither
  deferred nor followed by a node that is not deferred.
* `>`: the start of a span; `<`: its end.

Outside double quotes a word has no white space or grammar character, so a text splits into words by
`split_words`. All of this is display: no program reads names or sides out of a text; nodes have them as
fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from stitch.graph.template import digest, name_bytes

_PLAIN = re.compile(r'[^\s"\\{}|()^*&~!<>]+')
_SIDES = ("", ">", "<")


class Word(NamedTuple):
    """Symbol and text of one node, for folding and for display."""

    symbol: bytes
    """[16] digest of the node's name, kind, side and flags."""
    name: str
    """Name of the node as in texts (quoted if necessary), without flags and side."""
    flags: str
    text: str


@lru_cache(maxsize=65_536)
def quote(component: str, point: str, label: str | None) -> str:
    r"""Name of a node as text, `component/point[/label]`; in double quotes if it has white space, grammar or
    unprintable characters.

    Inside quotes `"` and backslash are escaped by a backslash, unprintable characters and white space other
    than the blank as `\u{hex}`. Slashes inside the parts are kept, so the text names a node for people; the
    key distinguishes nodes.
    """
    name = f"{component}/{point}" if label is None else f"{component}/{point}/{label}"
    if name.isprintable() and _PLAIN.fullmatch(name):
        return name
    escaped = "".join(
        f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in name
    )
    return f'"{escaped}"'


@lru_cache(maxsize=65_536)
def word(
    component: str, point: str, label: str | None, kind: int, side: int, deferred: bool, marked: bool
) -> Word:
    """Make the symbol and the text of a node.

    marked: True if the node gets the flag `!`, as an exception to the rule for responses.
    """
    flags = ("~" if deferred else "") + ("!" if marked else "")
    symbol = digest(b"n", bytes([kind, side, deferred, marked]), name_bytes(component, point, label))
    name = quote(component, point, label)
    return Word(symbol, name, flags, f"{flags}{name}{_SIDES[side]}")


NODE, SPAN, PARALLEL, SPAWN, LOOP, COPIES, REFERENCE = range(7)

EXACT, POWER_OF_TWO, AT_LEAST_TWO = 0, 1, 2
"""Levels L0, L1 and L2, named after how each shows the count of a loop."""

Pieces = list["StructurePiece"]


class StructurePiece:
    """One item of a folded sequence.

    NODE and REFERENCE: `start` is the node or the target. SPAN: `branches[0]` lies between `start` and `end`.
    PARALLEL, SPAWN: the branches, identical ones gathered in a COPIES piece. LOOP (series) and COPIES
    (parallel): the iterations, all of one folded form.
    """

    __slots__ = ("branches", "depth", "end", "kind", "open", "size", "start", "symbol", "words")

    def __init__(
        self,
        kind: int,
        symbol: bytes,
        branches: list[Pieces],
        *,
        words: tuple[Word, ...] = (),
        start: int = -1,
        end: int = -1,
    ) -> None:
        self.kind = kind
        self.symbol = symbol
        """[16] digest of the piece's folded form."""
        self.branches = branches
        self.start = start
        self.end = end
        self.words = words
        """Words of the piece's nodes: one for NODE, two for SPAN (its start and end), none for other
        kinds."""
        self.size = len(words)
        """Number of folded positions in the piece."""
        self.depth = 0
        """Nesting depth of loops in the piece; a loop counts itself."""
        self.open: dict[int, int] | None = None
        """Position of a join -> count of open references to it. If the join is in the piece: number of
        references outside, positive. If it is not: minus the number of references inside. None: no reference
        is open."""
        if branches and branches[0]:  # a span without anything inside has one empty branch
            repeated = kind in (LOOP, COPIES)
            size = depth = 0
            for branch in branches[:1] if repeated else branches:
                for piece in branch:
                    size += piece.size
                    if piece.depth > depth:
                        depth = piece.depth
            self.size += size
            self.depth = depth + repeated


def node_piece(position: int, name: Word) -> StructurePiece:
    """Piece of a single node."""
    return StructurePiece(NODE, name.symbol, [], words=(name,), start=position)


def span_piece(start: int, end: int, words: tuple[Word, Word], items: Pieces) -> StructurePiece:
    """Make the piece of a span from its start, the inner items and its end. words: those of start and end."""
    symbol = digest(b"S", words[0].symbol, words[1].symbol, symbols_of(items))
    return StructurePiece(SPAN, symbol, [items], words=words, start=start, end=end)


def reference_piece(target: int, name: Word) -> StructurePiece:
    """Make the piece for an edge to a join printed elsewhere: its symbol depends on the join's name only, the
    wiring identifies the join."""
    return StructurePiece(REFERENCE, digest(b"R", name.symbol), [], start=target)


def branching_piece(kind: int, branches: list[tuple[bytes, Pieces]]) -> StructurePiece:
    """Make a PARALLEL or SPAWN piece. branches: (symbol, pieces) of each branch, in the order of the text."""
    tag = b"P" if kind == PARALLEL else b"W"
    symbol = digest(tag, *[symbol for symbol, _ in branches])
    return StructurePiece(kind, symbol, [branch for _, branch in branches])


def repeat_piece(kind: int, iterations: list[Pieces], level: int) -> StructurePiece:
    """Make a LOOP or COPIES piece from two or more iterations with the same folded form."""
    count = shown_count(len(iterations), level).to_bytes(4, "little")
    tag = b"L" if kind == LOOP else b"C"
    return StructurePiece(kind, digest(tag, count, symbols_of(iterations[0])), iterations)


def shown_count(count: int, level: int) -> int:
    """Number of iterations as shown at a level: exact (L0), rounded up to a power of two (L1), or 2 for any
    number from two (L2)."""
    if level == EXACT:
        return count
    return 1 << (count - 1).bit_length() if level == POWER_OF_TWO else 2


def symbols_of(pieces: Iterable[StructurePiece]) -> bytes:
    """Concatenate the symbols of pieces; injective, as every symbol has 16 bytes."""
    return b"".join([piece.symbol for piece in pieces])


def sequence_symbol(pieces: Pieces) -> bytes:
    """[16] symbol of a sequence of pieces: that of its only piece, or a digest of all symbols."""
    return pieces[0].symbol if len(pieces) == 1 else digest(b"s", symbols_of(pieces))


def first_word(pieces: Pieces) -> str:
    """Text of the first node of a sequence; a text that sorts last if the sequence begins with a
    reference."""
    piece = pieces[0]
    while not piece.words and piece.branches:
        piece = piece.branches[0][0]
    return piece.words[0].text if piece.words else "\U0010ffff"


def walk(pieces: Sequence[StructurePiece]) -> Iterator[tuple[StructurePiece, int]]:
    """Yield (piece, folded position of its first node) in the order of the text, outer pieces before inner
    ones.

    Every iteration of a loop is visited, each from the same position. Iterative, so nesting depth has no
    bound.
    """
    # The last piece goes onto the stack first, so positions are counted down from the end of the parent.
    stack: list[tuple[StructurePiece, int]] = []
    push, pop = stack.append, stack.pop
    end = sum([piece.size for piece in pieces])
    for piece in reversed(pieces):
        end -= piece.size
        push((piece, end))
    while stack:
        item = pop()
        yield item
        piece, base = item
        if not piece.branches:
            continue
        repeated = piece.kind in (LOOP, COPIES)
        end = base + piece.size - (piece.kind == SPAN)
        for branch in reversed(piece.branches):
            if repeated:
                end = base + piece.size
            for inner in reversed(branch):
                end -= inner.size
                push((inner, end))
