"""Sentences of a report on names that were merged because they are too many."""

from __future__ import annotations

from analyze.population import FoldedNames
from analyze.refine.name_folding import LEADING_WORD, NOTHING
from analyze.report.header import folded_notes


def test_components_whose_names_were_merged_alike_are_told_in_one_sentence() -> None:
    folded = [FoldedNames(f"svc{i}", 5, 2 + (i == 3), (f"svc{i}/op0.8", f"svc{i}/op#.#")) for i in range(5)]
    assert folded_notes(folded) == (
        "Operations of svc0, svc1, svc2 and 2 more have more names than can be compared one by one: quoted "
        "words, UUIDs, hexadecimal ids, mixed ids and numbers in them are read as # (svc0/op0.8 as "
        "svc0/op#.#), which leaves 2 to 3 each.",
    )


def test_each_way_of_merging_is_told_by_itself_the_coarsest_first() -> None:
    folded = [
        FoldedNames("cart", 1, 70, ("cart/GET 'a'", "cart/GET #")),
        FoldedNames(None, NOTHING, 1, ("pod-1", "#")),
        FoldedNames("shop", LEADING_WORD, 1_200, ("shop/GET a b", "shop/GET")),
    ]
    text = "have more names than can be compared one by one:"
    assert folded_notes(folded) == (
        f"Components {text} all are compared as one (pod-1 as #), which leaves 1.",
        f"Operations of shop {text} they are compared by their first word (shop/GET a b as shop/GET), which "
        "leaves 1,200.",
        f"Operations of cart {text} quoted words in them are read as # (cart/GET 'a' as cart/GET #), which "
        "leaves 70.",
    )
    assert folded_notes([]) == ()
