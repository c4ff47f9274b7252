"""The fast tree against the slow one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import slow_tree
from oracles.attribute_tables import numbers, words
from oracles.examples import examples

from analyze.explain.coded_columns import code_columns
from analyze.explain.columns import AttributeColumn
from analyze.explain.tree import auc, best_splits, class_weights, shuffled

LEAST = 2


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, list[list[float]], list[list[str | None]]]:
    n = draw(st.integers(4, 24))
    label = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    label[:2] = (True, False)
    number = st.one_of(st.just(float("nan")), st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
    word = st.one_of(st.none(), st.sampled_from("abc"))
    return (
        label,
        draw(st.lists(st.lists(number, min_size=n, max_size=n), min_size=1, max_size=3)),
        draw(st.lists(st.lists(word, min_size=n, max_size=n), min_size=1, max_size=3)),
    )


@examples(80)
@given(tables())
def test_best_gains_are_those_of_the_slow_tree(
    drawn: tuple[np.ndarray, list[list[float]], list[list[str | None]]],
) -> None:
    label, number_values, word_values = drawn
    columns: list[AttributeColumn] = [numbers(f"n{i}", values) for i, values in enumerate(number_values)]
    columns += [words(f"w{i}", values) for i, values in enumerate(word_values)]
    coded = code_columns(columns, len(label), 64, 20)
    weights = class_weights(label)
    labels = shuffled(label, np.zeros(len(label), np.int32), 2, np.random.default_rng(0))
    counts = coded.counts(np.arange(len(label)), labels, 1 - labels)
    found = best_splits(coded, counts, weights, LEAST)
    for k in range(3):
        of = [bool(x) for x in labels[:, k]]
        slow = [slow_tree.best_number_gain(v, of, *weights, LEAST) for v in number_values]
        slow += [slow_tree.best_word_gain(v, of, *weights, LEAST) for v in word_values]
        assert found.gain[:, k] == pytest.approx(slow, abs=1e-5)


@examples(60)
@given(tables(), st.data())
def test_counts_are_those_of_request_by_request(
    drawn: tuple[np.ndarray, list[list[float]], list[list[str | None]]], data: st.DataObject
) -> None:
    label, number_values, word_values = drawn
    columns: list[AttributeColumn] = [numbers(f"n{i}", values) for i, values in enumerate(number_values)]
    columns += [words(f"w{i}", values) for i, values in enumerate(word_values)]
    coded = code_columns(columns, len(label), 2, 1)
    rows = np.array(data.draw(st.lists(st.integers(0, len(label) - 1), unique=True)), np.int64)
    both = [np.stack([side, ~side], axis=1)[rows].astype(np.float32) for side in (label, ~label)]
    found = coded.counts(rows, *both)
    for one, of in zip(found, both, strict=True):
        slow = np.zeros((len(columns), coded.width, 2))
        for column in range(len(columns)):
            for place, row in enumerate(rows.tolist()):
                slow[column, coded.codes[column, row]] += of[place]
        assert np.array_equal(one, slow)


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs(rows: list[tuple[int, bool]]) -> None:
    score = np.array([float(s) for s, _ in rows])
    label = np.array([x for _, x in rows])
    label[:2] = (True, False)
    assert auc(score, label) == pytest.approx(slow_tree.area(score.tolist(), label.tolist()))


def test_shuffled_labels_keep_their_blocks() -> None:
    rng = np.random.default_rng(3)
    label, block = rng.random(200) < 0.3, rng.integers(0, 7, 200).astype(np.int32)
    labels = shuffled(label, block, 50, rng)
    assert np.array_equal(labels[:, 0].astype(bool), label)
    for number in range(7):
        assert set(labels[block == number].sum(axis=0).tolist()) == {float(label[block == number].sum())}
    assert len(np.unique(labels, axis=1).T) > 45
