r"""Canonical text of a folded structure (A.3.4): written for people, split into words for the edit distance.

    sequence  = item { " " item }
    item      = node | parallel | spawn | loop | revisit
    node      = word ">" | word "<" | word "<>" | word           flags `~`, `!` before; see `words`
    parallel  = "{ " branch { " | " branch } " }"                what follows waits for every branch
    spawn     = "&{ " branch { " | " branch } " }"               nothing waits for these
    branch    = sequence [ " *" count ]                          identical branches
    loop      = "( " sequence " )*" count
    revisit   = "^" k                                            an edge to the k-th node of the text
    count     = digits [ "+" ]                                   L0 exact, L1 a power of two, L2 "2+"

Every item hangs on the open ends of what stands before it: a node has itself, a parallel block those of its
branches, a spawn those before it, a revisit none. Nodes are counted as printed, from 1; `op<>` counts as two,
a loop's body once. A revisit inside a loop means the same iteration.
"""

from __future__ import annotations

import re

from stitch.graph.pieces import (
    COPIES,
    LOOP,
    NODE,
    PARALLEL,
    REFERENCE,
    SPAN,
    Piece,
    Pieces,
    shown_count,
)

MAX_TEXT_CHARS = 65_536
"""A longer text is cut at a word and ends in `…+<nodes left out>`; keys and folding stay whole."""

_REVISIT_CHARS = 8
"""Room for a revisit, whose number is known at the end only."""

_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+')


def write_text(pieces: Pieces, level: int, n_nodes: int) -> str:
    """The text of a folded sequence at `level` (for its counts); bounded by MAX_TEXT_CHARS."""
    words: list[str] = []
    revisits: list[tuple[int, int]] = []
    ordinal: dict[int, int] = {}
    stack: list[Piece | str] = list(reversed(pieces))
    room = MAX_TEXT_CHARS
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            words.append(item)
        elif item.kind == NODE:
            ordinal[item.start] = len(ordinal) + 1
            words.append(item.words[0].text)
        elif item.kind == REFERENCE:
            revisits.append((len(words), item.start))
            words.append("^")
        elif item.kind == SPAN:
            _open_span(item, words, stack, ordinal)
        else:
            _open_branches(item, level, words, stack)
        if words:
            room -= _REVISIT_CHARS if words[-1] == "^" else len(words[-1]) + 1
        if room < 0:
            words.append(f"…+{n_nodes - len(ordinal)}")
            break
    for at, target in revisits:
        words[at] = f"^{ordinal.get(target, '…')}"
    return " ".join(words)


def _open_span(item: Piece, words: list[str], stack: list[Piece | str], ordinal: dict[int, int]) -> None:
    start, end = item.words
    ordinal[item.start] = len(ordinal) + 1
    if not item.branches[0] and start.name == end.name and start.flags == end.flags:
        ordinal[item.end] = len(ordinal) + 1
        words.append(f"{start.flags}{start.name}<>")
        return
    words.append(start.text)
    stack.append(Piece(NODE, end.symbol, [], words=(end,), start=item.end))
    stack.extend(reversed(item.branches[0]))


def _open_branches(item: Piece, level: int, words: list[str], stack: list[Piece | str]) -> None:
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
    """Words of a canonical text; a quoted name is part of one word."""
    return tuple(_WORD.findall(text))
