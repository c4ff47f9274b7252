"""Word a decision tree as rules, one for each path from the root to a leaf."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from analyze.explain.coded_columns import CodedColumns
from analyze.explain.columns import ANYWHERE, REQUEST
from analyze.explain.tree import ClassWeights, Split, TreeNode
from schemas.report.explanations import Rule

_BASE: Final = 0.5
"""Purity of a rule without conditions: the two classes have equal total weight."""
_FEW_VALUES: Final = 32
"""Maximum number of distinct values for which a column of numbers is treated as a choice: a rule then names a
value instead of a threshold."""


def best_group(coded: CodedColumns, tree: TreeNode, weights: ClassWeights) -> Rule:
    """Rule of the best node below the root: the node, inner or leaf, with the largest weight of affected
    requests minus weight of other requests."""
    nodes = list(_walk(tree, ()))
    node, path = max(
        (found for found in nodes if found[1]),
        key=lambda found: found[0].n_affected * weights.affected - found[0].n_others * weights.others,
        default=nodes[0],
    )
    return _rule(_conditions(coded, path), node, weights)


class _Answer(NamedTuple):
    split: Split
    left: bool


def tree_rules(coded: CodedColumns, tree: TreeNode, weights: ClassWeights) -> tuple[Rule, ...]:
    """Rules of all leaves of a tree, highest purity first."""
    rules = [
        _rule(_conditions(coded, path), node, weights) for node, path in _walk(tree, ()) if node.split is None
    ]
    return tuple(sorted(rules, key=lambda rule: (-rule.purity, -rule.n_affected, rule.conditions)))


def _walk(node: TreeNode, path: tuple[_Answer, ...]) -> Iterator[tuple[TreeNode, tuple[_Answer, ...]]]:
    """Yield (node, answers to the splits on the path from the root to the node), parents first."""
    yield node, path
    if node.split is not None and node.left is not None and node.right is not None:
        yield from _walk(node.left, (*path, _Answer(node.split, True)))
        yield from _walk(node.right, (*path, _Answer(node.split, False)))


def _rule(conditions: tuple[str, ...], node: TreeNode, weights: ClassWeights) -> Rule:
    a, b = node.n_affected * weights.affected, node.n_others * weights.others
    purity = a / (a + b) if a + b else 0.0
    return Rule(
        conditions=conditions,
        n_affected=node.n_affected,
        n_others=node.n_others,
        purity=purity,
        lift=purity / _BASE,
    )


def _conditions(coded: CodedColumns, path: tuple[_Answer, ...]) -> tuple[str, ...]:
    """Conditions of a path in words, without conditions that others imply."""
    return tuple(_condition(coded, split, left=left) for split, left in _needed(coded, path))


def _needed(coded: CodedColumns, path: tuple[_Answer, ...]) -> list[_Answer]:
    """Answers of a path, without answers that later answers imply: `count <= 9000` is dropped if `count <=
    4096` follows."""
    return [
        answer
        for number, answer in enumerate(path)
        if not any(
            later.split.column == answer.split.column
            and (later.left == answer.left if coded.numeric[answer.split.column] else later.left)
            for later in path[number + 1 :]
        )
    ]


def _condition(coded: CodedColumns, split: Split, *, left: bool) -> str:
    """Condition in words for requests that go left (or, with left=False, right) at a split: `count <= 4096 at
    nfs/READ`, `encoding is default`, `user is missing`."""
    column = coded.columns[split.column]
    at = "" if column.where in (REQUEST, ANYWHERE) else f" at {column.where}"
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
        return f"{column.says(word)}{at}"
    low, high = coded.low[split.column], coded.high[split.column]
    has_missing = bool((coded.codes[split.column] == missing).any())
    here = has_missing and split.missing_left == left
    if split.cut >= len(low) - 1:  # all numbers on the left: the question is whether there is one
        return f"{column.name} is {'there' if left else 'missing'}{at}"
    below, above = float(high[split.cut]), float(low[split.cut + 1])
    if len(low) <= _FEW_VALUES and bool((low == high).all()):  # a choice among values: name one of them
        answer = f"<= {number_text(below)}" if left else f">= {number_text(above)}"
    else:
        answer = f"{'<=' if left else '>'} {number_text(round_threshold(below, above))}"
    return f"{column.name} {answer}{' or missing' if here else ''}{at}"


def round_threshold(low: float, high: float) -> float:
    """Threshold t with low <= t < high that is the roundest number.

    The roundest number has the fewest decimal digits and, among these, is nearest to the middle. A power of
    two (512, 4096, 65536) is preferred to a number of three or more digits. `low < high`, both finite.
    """
    if not math.isfinite(high - low):
        return low
    middle = low + (high - low) / 2
    largest = max(abs(low), abs(high))
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    if low < 0 <= high or low == 0.0:
        return 0.0
    for exponent in range(power, power - 17, -1):
        step = 10.0**exponent
        if step == 0.0:
            break
        found = _multiple(low, high, middle, step)
        if found is not None:
            binary = _power_of_two(low, high)
            return binary if binary is not None and power - exponent >= 2 else found
    return low


def _multiple(low: float, high: float, middle: float, step: float) -> float | None:
    """Multiple of `step` in [low, high) that is nearest to `middle`; None if there is none."""
    best: float | None = None
    nearest = math.floor(middle / step)
    for number in (nearest, nearest + 1):
        # A step below one divides by its inverse, so that 0.3 is 0.3 and not 0.30000000000000004.
        value = number * step if step >= 1 else number / round(1 / step)
        inside = low <= value < high
        if inside and (best is None or abs(value - middle) < abs(best - middle)):
            best = value
    return best


def _power_of_two(low: float, high: float) -> float | None:
    """Largest power of two in [low, high) that is at least 256; None if the interval contains none."""
    if high <= 256:
        return None
    value = 2.0 ** (math.ceil(math.log2(high)) - 1)
    return value if value >= max(low, 256) else None


def number_text(value: float) -> str:
    """Text of a number, up to six significant digits: `4096`, `0.25`, `1.5e+12`."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
