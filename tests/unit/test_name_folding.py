"""Names that hold ids are folded to few, alike however they come."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyze.refine.name_folding import LEADING_WORD, NOTHING, NameFolder, fold_text, fold_texts
from analyze.refine.stored import Operation

MOST = 10
TEXT = st.text(st.sampled_from("ab1F9\"'-_/ #é{}x"), max_size=30)


def folder(names: list[Operation], most: int = MOST) -> NameFolder:
    made = NameFolder(most)
    made.add(names)
    return made


@given(TEXT, st.integers(0, NOTHING), st.integers(0, NOTHING))
def test_the_coarser_of_two_levels_counts(text: str, first: int, second: int) -> None:
    assert fold_text(fold_text(text, first), second) == fold_text(text, max(first, second))


@given(TEXT, TEXT, st.integers(1, NOTHING))
def test_coarser_levels_only_merge(a: str, b: str, level: int) -> None:
    if fold_text(a, level - 1) == fold_text(b, level - 1):
        assert fold_text(a, level) == fold_text(b, level)


@pytest.mark.parametrize(
    ("make", "level", "name"),
    [
        (lambda at: f"say 'w{chr(97 + at % 26)}{chr(97 + at // 26)}' 7", 1, "say # 7"),
        (lambda at: f"v2 job-{at * 2654435761 % 2**32:08x}-aaaa-bbbb-cccc-{at:012x}", 2, "v2 job-#"),
        (lambda at: f"fs -mkdir dir_{at}", 5, "fs -mkdir dir_#"),
        (lambda at: f"find {'abcdefghij'[at % 10]}{'klmnopqrst'[at // 10]}", LEADING_WORD, "find#"),
        (lambda at: f"{'abcdefghij'[at % 10]}{'klmnopqrst'[at // 10]}", NOTHING, "#"),
    ],
)
def test_as_little_is_folded_as_will_do(make: object, level: int, name: str) -> None:
    names = [Operation("shop", make(at)) for at in range(100)]  # type: ignore[operator]
    (fold,) = folder(names).folding().folds
    assert (fold.component, fold.level, fold.left) == ("shop", level, 1)
    assert fold.example == (f"shop/{min(names).point}", f"shop/{name}")


def test_other_components_keep_their_names() -> None:
    others = [Operation("cart", f"v{at}", None if at % 2 else "HIT") for at in range(MOST)]
    folding = folder([*others, *(Operation("shop", f"get {at}") for at in range(MOST + 1))]).folding()
    assert [folding.name(name) for name in others] == others
    assert folding.name(Operation("shop", "get 3", "blk 4")) == Operation("shop", "get #", "blk #")


def test_components_are_folded_and_their_operations_together() -> None:
    names = [Operation(f"pod-{at}", f"{word}{at % 6}") for at in range(40) for word in ("get", "put")]
    folding = folder(names).folding()
    assert [(fold.component, fold.left) for fold in folding.folds] == [(None, 1), ("pod-#", 2)]
    assert {folding.name(name) for name in names} == {
        Operation("pod-#", "get#"),
        Operation("pod-#", "put#"),
    }


@given(st.lists(st.builds(Operation, TEXT, TEXT, st.none() | TEXT), max_size=60), st.randoms())
def test_the_order_of_names_does_not_count(names: list[Operation], rng: random.Random) -> None:
    found = folder(names, 4).folding()
    mixed = names * 2
    rng.shuffle(mixed)
    assert folder(mixed, 4).folding().folds == found.folds
    again = NameFolder(4, found.folds)
    again.add(map(found.name, names))
    assert again.folding() == found
    assert len({found.name(name).component for name in names}) <= 4
    assert all(
        len({found.name(n) for n in names if found.component(n.component) == c}) <= 4
        for c in {found.component(name.component) for name in names}
    )


@given(st.lists(TEXT | st.text(max_size=5)), st.integers(0, NOTHING))
def test_texts_are_folded_together_as_alone(texts: list[str], level: int) -> None:
    assert fold_texts(texts, level) == [fold_text(text, level) for text in texts]


def test_names_added_in_parts_fold_like_those_added_at_once() -> None:
    names = [Operation(f"c{at % 3}", f"op{at % 7} of {at}") for at in range(60)]
    whole, few = NameFolder(MOST), NameFolder(MOST)
    whole.add(names)
    for at in range(0, 60, 7):
        few.add(names[: at + 7])
        assert few.folded(names[:at]) == [few.folding().name(name) for name in names[:at]]
    assert few.folding() == whole.folding()
    assert few.folded(names) == whole.folded(names) == [whole.folding().name(name) for name in names]
