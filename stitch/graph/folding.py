"""Fold loops (maximal tandem repeats) and identical parallel branches, at levels L0, L1 and L2.

L0 folds exactly equal parts. L1 rounds the counts of the folded L0 form up to powers of two and folds parts
made equal by that, L2 drops the counts of L1 and folds again. So each level is a function of the one before:
equal L0 implies equal L1 implies equal L2, and folded positions of L2 are unions of those of L1.

Within a sequence the smallest period is folded first (1 ... MAX_PERIOD), starting again from 1 after each
fold; among repeats of one period the longest in total is folded first. This ends when nothing folds any more
or loops are nested MAX_DEPTH deep. As small periods are first, a loop whose body has an inner loop of varying
count becomes one loop at L2.

Example, the sequence a b b b a b b b b:

1. L0, period 1: b b b and b b b b are repeats; the longer one is taken first, then the other, for they do not
   overlap. The result is a (b)*3 a (b)*4; the loops differ in count, so in symbol: nothing else folds.
2. L1 shows 3 as 4: both loops have one symbol, and period 2 finds a (b)*4 twice: ( a (b)*4 )*2.
3. L2 shows every count as 2+: ( a (b)*2+ )*2+, also for any other number of b and of rounds.
4. Folded positions at L1: a is 0 and b is 1 in every iteration: 0 1 1 1 0 1 1 1 1.

Identical parallel branches fold too, in any order: { b | b | b } becomes { b *3 }.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import eq
from typing import NamedTuple

import numpy as np

from stitch.graph.pieces import (
    AT_LEAST_TWO,
    COPIES,
    EXACT,
    LOOP,
    NODE,
    PARALLEL,
    POWER_OF_TWO,
    REFERENCE,
    SPAN,
    SPAWN,
    Pieces,
    StructurePiece,
    Word,
    branching_piece,
    first_word,
    node_piece,
    reference_piece,
    repeat_piece,
    sequence_symbol,
    span_piece,
    symbols_of,
    walk,
    word,
)
from stitch.graph.series_parallel import PARALLEL as PARALLEL_BLOCK
from stitch.graph.series_parallel import SPAN as SPAN_BLOCK
from stitch.graph.series_parallel import Block, Item, SeriesParallel
from stitch.graph.template import Template, digest

_MAX_PERIOD = 16
"""Maximum length of a loop body, in symbols; a span or a parallel block counts as one symbol."""
_MAX_DEPTH = 3
"""Maximum nesting depth of loops; a loop nested deeper is not folded."""
_MAX_OPEN, _MAX_WIRED = 64, 4096
"""Bounds of a piece that may be folded although it contains references: maximum joins with open references,
maximum nodes after folding."""
_NEVER = -2
"""Key in `StructurePiece.open` that marks a piece as never closed."""


class Repeat(NamedTuple):
    """Run of `copies` equal consecutive blocks of `period` symbols each, starting at index `start`."""

    start: int
    period: int
    copies: int


def repeats(symbols: Sequence[int], period: int) -> list[Repeat]:
    """Non-overlapping runs in which a block of `period` symbols repeats, in order of start.

    Longest runs are chosen first; each is left-aligned in its maximal run. O(len(symbols)).
    """
    n = len(symbols)
    # A repeat needs a period of equal pairs. Most periods have fewer, and counting runs in C.
    if sum(map(eq, symbols, symbols[period:])) < period:
        return []
    runs = [
        Repeat(begin, period, (length + period) // period)
        for begin, length in _equal_runs(symbols, period)
        if length >= period
    ]
    if len(runs) < 2:
        return runs
    taken = np.zeros(n, dtype=np.bool_)
    chosen = []
    for run in sorted(runs, key=lambda run: (-run.copies, run.start)):
        span = taken[run.start : run.start + run.copies * period]
        if not span.any():
            span[:] = True
            chosen.append(run)
    return sorted(chosen)


def _equal_runs(symbols: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Maximal runs `(begin, length)` of indices i at which symbols[i] == symbols[i + period]."""
    end = 0
    for is_equal, run in groupby(map(eq, symbols, symbols[period:])):
        begin, end = end, end + len([*run])
        if is_equal:
            yield begin, end - begin


@dataclass(frozen=True, slots=True)
class Folded:
    """A structure with its loops and identical branches folded, at one of the levels L0, L1, L2."""

    pieces: Pieces
    key: str
    """Category key at this level: 32 hex digits, equal iff the folded forms are equal."""
    wiring: bytes = field(repr=False)
    """Serialised links from references to joins that no folded piece contains; empty without such links."""
    made: list[StructurePiece] = field(repr=False)
    """Composite pieces of the structure, inner before outer."""


def fold_levels(tree: SeriesParallel, words: list[Word]) -> tuple[Folded, Folded, Folded]:
    """Fold a structure at L0, L1 and L2. words: [nodes] symbol and text of each node. Two levels share
    `pieces` if the higher one folds nothing more."""
    l0 = _fold_exact(tree, words)
    l1 = _relax(l0, tree, POWER_OF_TWO)
    return l0, l1, _relax(l1, tree, AT_LEAST_TWO)


def node_words(template: Template) -> list[Word]:
    """[nodes] `Word` of each node of a template."""
    awaited = {src for src, dst in template.edges if not template.deferred[dst]}
    responses = set(template.responses)
    return [
        word(
            component,
            point,
            label,
            kind,
            side,
            deferred,
            (not deferred and i not in awaited) != (i in responses),
        )
        for i, (component, point, label, kind, side, deferred) in enumerate(
            zip(
                template.component,
                template.point,
                template.label,
                template.kind,
                template.side,
                template.deferred,
                strict=True,
            )
        )
    ]


def _fold_exact(tree: SeriesParallel, words: list[Word]) -> Folded:
    built: dict[int, StructurePiece] = {}
    made: list[StructurePiece] = []
    referenced = tree.referenced

    def pieces_of(items: list[Item]) -> Pieces:
        pieces: Pieces = []
        for item in items:
            if isinstance(item, Block):
                piece = built[id(item)]
            elif item >= 0:
                piece = node_piece(item, words[item])
                if item in referenced:
                    piece.open = {item: referenced[item]}
            else:
                piece = reference_piece(~item, words[~item])
                piece.open = {~item: -1}
            pieces.append(piece)
        return _fold_series(pieces, EXACT, made)

    for block in tree.blocks:
        branches = [pieces_of(items) for items in block.branches]
        if block.kind == SPAN_BLOCK:
            ends = (words[block.start], words[block.end])
            piece = span_piece(block.start, block.end, ends, branches[0])
        else:
            kind = PARALLEL if block.kind == PARALLEL_BLOCK else SPAWN
            piece = branching_piece(kind, _gather(branches, EXACT, made))
        if referenced:
            piece = _close(piece, referenced)
        built[id(block)] = piece
        made.append(piece)
    pieces = pieces_of(tree.items)
    wiring = _wiring(pieces) if referenced else b""
    return Folded(pieces, _level_key(EXACT, pieces, wiring), wiring, made)


def _relax(folded: Folded, tree: SeriesParallel, level: int) -> Folded:
    """Fold an already folded structure at the next `level`: show counts more coarsely, and fold parts that
    this makes equal."""
    if all(piece.depth == 0 for piece in folded.pieces):
        key = _level_key(level, folded.pieces, folded.wiring)
        return Folded(folded.pieces, key, folded.wiring, folded.made)
    made: list[StructurePiece] = []
    renewed: dict[int, StructurePiece] = {}

    def renew(pieces: Pieces) -> Pieces:
        if all(piece.depth == 0 for piece in pieces):
            return pieces
        return _fold_series([renewed.get(id(piece), piece) for piece in pieces], level, made)

    for piece in folded.made:
        if piece.depth == 0:
            continue
        if piece.kind in (LOOP, COPIES):
            new = repeat_piece(piece.kind, [renew(iteration) for iteration in piece.branches], level)
        elif piece.kind == SPAN:
            new = span_piece(
                piece.start, piece.end, (piece.words[0], piece.words[1]), renew(piece.branches[0])
            )
        else:
            # Expand copies again: branches made equal by this level may be gathered with them.
            branches = []
            for branch in piece.branches:
                copies = renewed.get(id(branch[0]))
                if len(branch) == 1 and copies is not None and copies.kind == COPIES:
                    branches.extend(copies.branches)
                else:
                    branches.append(renew(branch))
            new = branching_piece(piece.kind, _gather(branches, level, made))
        if tree.referenced:
            new = _close(new, tree.referenced)
        renewed[id(piece)] = new
        made.append(new)
    pieces = renew(folded.pieces)
    wiring = _wiring(pieces) if tree.referenced else b""
    return Folded(pieces, _level_key(level, pieces, wiring), wiring, made)


def _gather(branches: list[Pieces], level: int, made: list[StructurePiece]) -> list[tuple[bytes, Pieces]]:
    """Gather identical branches in COPIES pieces: (symbol, pieces) of each distinct branch, sorted as in the
    text, by (first word, symbol)."""
    groups: dict[bytes | int, list[tuple[bytes, Pieces]]] = {}
    for i, branch in enumerate(branches):
        symbol = sequence_symbol(branch)
        whole = all(piece.open is None for piece in branch)
        groups.setdefault(symbol if whole else i, []).append((symbol, branch))
    gathered = []
    for group in groups.values():
        # Beyond L0 gathered branches stay gathered at any depth: else their exact count would show again.
        if len(group) > 1 and (level != EXACT or max(piece.depth for piece in group[0][1]) < _MAX_DEPTH):
            piece = repeat_piece(COPIES, [branch for _, branch in group], level)
            made.append(piece)
            gathered.append((piece.symbol, [piece]))
        else:
            gathered.extend(group)
    if len(gathered) > 1:
        gathered.sort(key=lambda item: (first_word(item[1]), item[0]))
    return gathered


def _fold_series(pieces: Pieces, level: int, made: list[StructurePiece]) -> Pieces:
    """Fold all repeats in a sequence of pieces. made: list to which each new composite piece is appended."""
    if level != EXACT and any(piece.kind == LOOP for piece in pieces):
        pieces = _absorb(pieces, level, made)
    if len(pieces) < 2 or len({piece.symbol for piece in pieces}) == len(pieces):
        return pieces
    codes = _codes(pieces)
    period = 1
    # After a fold the shorter sequence may repeat with a period that did not before: again from 1.
    while period <= _MAX_PERIOD and 2 * period <= len(pieces):
        folded = _fold_period(pieces, codes, period, level, made)
        if folded is pieces:
            period += 1
        else:
            pieces, codes, period = folded, _codes(folded), 1
    return pieces


def _codes(pieces: Pieces) -> list[int]:
    """[pieces] integer codes, equal iff two pieces are interchangeable; a piece with open references has a
    unique code."""
    seen: dict[bytes | int, int] = {}
    return [
        seen.setdefault(piece.symbol if piece.open is None else i, len(seen))
        for i, piece in enumerate(pieces)
    ]


def _fold_period(
    pieces: Pieces, codes: list[int], period: int, level: int, made: list[StructurePiece]
) -> Pieces:
    """Replace repeats with a body of `period` pieces by loops; return `pieces` itself if there are none.
    codes: [pieces] result of `_codes`."""
    result: Pieces = []
    done = 0
    for start, _, count in repeats(codes, period):
        if max(piece.depth for piece in pieces[start : start + period]) >= _MAX_DEPTH:
            continue
        result.extend(pieces[done:start])
        done = start + count * period
        loop = repeat_piece(LOOP, [pieces[i : i + period] for i in range(start, done, period)], level)
        made.append(loop)
        result.append(loop)
    if not done:
        return pieces
    result.extend(pieces[done:])
    return result


def _absorb(pieces: Pieces, level: int, made: list[StructurePiece]) -> Pieces:
    """Merge adjacent loops of equal body, and a loop with adjacent pieces that equal its body. made: list to
    which each new piece is appended."""
    result: Pieces = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        last = result[-1] if result and result[-1].kind == LOOP else None
        if last is not None:
            body = last.branches[0]
            if piece.kind == LOOP and symbols_of(piece.branches[0]) == symbols_of(body):
                result[-1] = repeat_piece(LOOP, last.branches + piece.branches, level)
                made.append(result[-1])
                at += 1
                continue
            # The loop is followed by its body: one more iteration.
            following = pieces[at : at + len(body)]
            if symbols_of(following) == symbols_of(body):
                result[-1] = repeat_piece(LOOP, [*last.branches, following], level)
                made.append(result[-1])
                at += len(body)
                continue
        if piece.kind == LOOP:
            # Likewise for bodies before the loop, repeatedly.
            body = piece.branches[0]
            while len(result) >= len(body) and symbols_of(result[-len(body) :]) == symbols_of(body):
                piece = repeat_piece(LOOP, [result[-len(body) :], *piece.branches], level)
                made.append(piece)
                del result[-len(body) :]
        result.append(piece)
        at += 1
    return result


def _close(piece: StructurePiece, referenced: dict[int, int]) -> StructurePiece:
    """Update `piece.open`; when no reference in the piece is open any more, add their wiring to its symbol.
    referenced: position of a join -> number of references to it.

    A piece beyond the bounds is treated as never closed: it is not folded, and the key of the whole structure
    includes its wiring. Without bounds a ladder of n rungs would cost n walks of n nodes.
    """
    missing: dict[int, int] = {}
    for position in (piece.start, piece.end):
        if position in referenced:
            missing[position] = referenced[position]
    for branch in piece.branches:
        for inner in branch:
            if inner.open is not None:
                for join, count in inner.open.items():
                    missing[join] = missing.get(join, 0) + count
    if not missing:
        return piece
    left = {join: count for join, count in missing.items() if count}
    if len(missing) > _MAX_OPEN or piece.size > _MAX_WIRED:
        piece.open = {_NEVER: 1}
    elif len(left) == len(missing):
        piece.open = left
    else:
        symbol = digest(b"X", piece.symbol, _wiring([piece]))
        piece = StructurePiece(
            piece.kind, symbol, piece.branches, words=piece.words, start=piece.start, end=piece.end
        )
        piece.open = left or None
    return piece


def _wiring(pieces: Pieces) -> bytes:
    """Serialise the links from references to joins within `pieces`, as folded positions relative to the first
    node."""
    places: dict[int, int] = {}
    references = []
    for piece, base in walk(pieces):
        if piece.kind == REFERENCE:
            references.append((base, piece.start))
        elif piece.kind == NODE:
            places[piece.start] = base
        elif piece.kind == SPAN:
            places[piece.start], places[piece.end] = base, base + piece.size - 1
    wires = [place for base, target in references if target in places for place in (base, places[target])]
    return struct.pack(f"<{len(wires)}I", *wires)


def _level_key(level: int, pieces: Pieces, wiring: bytes) -> str:
    tag = f"flowdiff L{level} folded\0".encode()
    return digest(tag, sequence_symbol(pieces), wiring).hex()
