"""Thresholds, candidate precursors, edit distances and contributions: numbers worked out by hand."""

import numpy as np
import pytest

from analyze.methods.paper.settings import PaperSettings
from analyze.methods.paper.structural import (
    candidates,
    distances,
    similarity_weights,
    structural_contribution,
    structural_sets,
)
from analyze.methods.paper.timing import response_time_contribution
from analyze.paths.moves import as_texts

TEXT, RELEASED = PaperSettings(), PaperSettings(variant="released")


def test_threshold_is_inclusive_in_the_text_and_strict_in_the_released_tool():
    #                  +50  +49  -50  -49  +51  -51
    count = np.array([[10, 10, 60, 59, 0, 51], [60, 59, 10, 10, 51, 0]])
    text, released = structural_sets(count, TEXT), structural_sets(count, RELEASED)
    assert text.mutations.tolist() == [0, 4]
    assert text.precursors.tolist() == [2, 5]
    assert released.mutations.tolist() == [4]
    assert released.precursors.tolist() == [5]


def test_threshold_is_a_setting():
    count = np.array([[0, 10], [10, 0]])
    got = structural_sets(count, PaperSettings(sm_threshold=10))
    assert (got.mutations.tolist(), got.precursors.tolist()) == ([0], [1])


def test_candidates_lost_enough():
    # The scheme of NSDI Figure 4 with own numbers: mutation 0 gained 300.
    count = np.array([[300, 550, 700, 1000], [600, 400, 400, 100]])
    # 1 lost 150 < 300: out by 1:N. 2 lost exactly 300: in.
    assert candidates(0, np.array([1, 2, 3]), count).tolist() == [2, 3]


def test_distance_is_levenshtein_over_tokens():
    texts = as_texts(
        [("open", "read", "close"), ("open", "close"), ("open", "write", "sync", "close"), ("open", "close")]
    )
    got = distances(texts, np.array([0, 2]), np.array([1, 3, 0]))
    assert got.edits.tolist() == [[1, 1, 0], [2, 2, 2]]
    np.testing.assert_allclose(got.normalized, [[1 / 3, 1 / 3, 0], [0.5, 0.5, 0.5]])


def test_distance_to_nothing():
    got = distances(as_texts([("a",), ("b",)]), np.array([0]), np.array([], dtype=np.intp))
    assert got.edits.shape == (1, 0)


@pytest.mark.parametrize(
    ("settings", "distance", "expected"),
    [
        (TEXT, "raw", [1 / 2, 1 / 4]),  # 1/(1+d): d = 1, 3
        (TEXT, "normalized", [1 - 0.1, 1 - 0.6]),
        (RELEASED, "normalized", [1 / 0.1, 1 / 0.6]),
        (RELEASED, "raw", [1 / 1, 1 / 3]),
    ],
)
def test_similarity_weights(settings: PaperSettings, distance: str, expected: list[float]):
    got = similarity_weights(np.array([1, 3], np.int32), np.array([0.1, 0.6]), distance, settings)
    np.testing.assert_allclose(got, np.array(expected) / sum(expected))


def test_released_weight_at_distance_zero_is_the_limit():
    got = similarity_weights(np.array([0, 3, 0], np.int32), np.array([0.0, 0.6, 0.0]), "normalized", RELEASED)
    np.testing.assert_allclose(got, [0.5, 0, 0.5])


def test_nothing_in_common_with_any_candidate_weighs_them_alike():
    got = similarity_weights(np.array([4, 2], np.int32), np.array([1.0, 1.0]), "normalized", TEXT)
    np.testing.assert_allclose(got, [0.5, 0.5])


def test_contributions():
    # 300 more requests, 5 ms each where their precursors take 2 ms: 0.9 s.
    assert structural_contribution(300, 5000.0, 2000.0) == 900_000
    # 400 requests before, each 250 µs slower: 0.1 s.
    assert response_time_contribution(400, 1000.0, 1250.0) == 100_000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (PaperSettings(), "raw"),
        (PaperSettings(ranking="tr"), "normalized"),
        (PaperSettings(variant="released"), "normalized"),
        (PaperSettings(variant="released", distance="raw"), "raw"),
        (PaperSettings(ranking="tr", distance="raw"), "raw"),
    ],
)
def test_distance_in_force(settings: PaperSettings, expected: str):
    assert settings.resolved_distance == expected
