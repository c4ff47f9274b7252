"""A tree as rules: one a path from the root to a leaf, in words (ALGORITHMS D.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from analyze.explain.attribute_column import REQUEST
from analyze.explain.column_codes import CodedColumns
from analyze.explain.gated_tree import Node, Split
from analyze.explain.round_threshold import FEW_VALUES, round_threshold, said
from analyze.explain.split_gain import ClassWeights
from schemas.report.explanations import Rule

_BASE: Final = 0.5
"""Purity of all requests, as both classes are weighted alike."""


class Group(NamedTuple):
    """Requests of a node, and the answers that lead to it."""

    conditions: tuple[str, ...]
    n_affected: int
    n_others: int


def best_group(coded: CodedColumns, tree: Node, weights: ClassWeights) -> Group:
    """The node below the root, inner or leaf, with most of the affected and least of the other requests."""
    nodes = list(_walk(tree, ()))
    node, path = max(
        (found for found in nodes if found[1]),
        key=lambda found: found[0].n_affected * weights.affected - found[0].n_others * weights.others,
        default=nodes[0],
    )
    return Group(_said(coded, path), node.n_affected, node.n_others)


class _Answer(NamedTuple):
    split: Split
    left: bool


def tree_rules(coded: CodedColumns, tree: Node, weights: ClassWeights) -> tuple[Rule, ...]:
    """Rules of all leaves, those with the most affected requests for their size first."""
    rules = [_rule(_said(coded, path), node, weights) for node, path in _walk(tree, ()) if node.split is None]
    return tuple(sorted(rules, key=lambda rule: (-rule.purity, -rule.n_affected, rule.conditions)))


def _walk(node: Node, path: tuple[_Answer, ...]) -> Iterator[tuple[Node, tuple[_Answer, ...]]]:
    """Every node and the answers that lead to it, parents first."""
    yield node, path
    if node.split is not None and node.left is not None and node.right is not None:
        yield from _walk(node.left, (*path, _Answer(node.split, True)))
        yield from _walk(node.right, (*path, _Answer(node.split, False)))


def _rule(conditions: tuple[str, ...], node: Node, weights: ClassWeights) -> Rule:
    a, b = node.n_affected * weights.affected, node.n_others * weights.others
    purity = a / (a + b) if a + b else 0.0
    return Rule(
        conditions=conditions,
        n_affected=node.n_affected,
        n_others=node.n_others,
        purity=purity,
        lift=purity / _BASE,
    )


def _said(coded: CodedColumns, path: tuple[_Answer, ...]) -> tuple[str, ...]:
    """The answers of a path in words."""
    return tuple(condition(coded, split, left=left) for split, left in _needed(coded, path))


def _needed(coded: CodedColumns, path: tuple[_Answer, ...]) -> list[_Answer]:
    """A path without the answers that a later one contains: `count <= 9000` before `count <= 4096`."""
    return [
        answer
        for number, answer in enumerate(path)
        if not any(
            later.split.column == answer.split.column
            and (later.left == answer.left if coded.numeric[answer.split.column] else later.left)
            for later in path[number + 1 :]
        )
    ]


def condition(coded: CodedColumns, split: Split, *, left: bool) -> str:
    """One answer to a split: `count <= 4096 at nfs/READ`, `encoding is default`, `user is missing`."""
    column = coded.columns[split.column]
    at = "" if column.where == REQUEST else f" at {column.where}"
    missing = coded.width - 1
    if not coded.numeric[split.column]:
        if split.cut == missing:
            return f"{column.name} is {'missing' if left else 'there'}{at}"
        word = coded.word(split.column, split.cut)
        if not left:
            rest = np.setdiff1d(np.unique(coded.codes[split.column]), [split.cut])
            if len(rest) != 1:
                return f"{column.name} is not {word}{at}"
            if rest[0] == missing:
                return f"{column.name} is missing{at}"
            word = coded.word(split.column, int(rest[0]))
        return f"{column.name} is {word}{at}"
    low, high = coded.low[split.column], coded.high[split.column]
    has_missing = bool((coded.codes[split.column] == missing).any())
    here = has_missing and split.missing_left == left
    if split.cut >= len(low) - 1:  # all numbers on the left: the question is whether there is one
        return f"{column.name} is {'there' if left else 'missing'}{at}"
    below, above = float(high[split.cut]), float(low[split.cut + 1])
    if len(low) <= FEW_VALUES and bool((low == high).all()):  # a choice among values: name one of them
        answer = f"<= {said(below)}" if left else f">= {said(above)}"
    else:
        answer = f"{'<=' if left else '>'} {said(round_threshold(below, above))}"
    return f"{column.name} {answer}{' or missing' if here else ''}{at}"
