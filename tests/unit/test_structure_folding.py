"""Keys, loops and folded positions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from oracles.described import FoldedLoop, Structure, describe
from oracles.structure_rows import structure_from_row, structures_table

from schemas.lake import STRUCTURES_SCHEMA
from stitch.graph.folding import Repeat, repeats
from stitch.graph.template import Template


def chain(letters: str) -> Template:
    n = len(letters)
    return Template.of_graph([("s", c, None) for c in letters], [(i, i + 1) for i in range(n - 1)], [n - 1])


def fold(letters: str) -> Structure:
    return describe(chain(letters))


def shown(letters: str) -> tuple[str, str, str]:
    s = fold(letters)
    return tuple(t.replace("s/", "") for t in (s.canonical, s.canonical_l1, s.canonical_l2))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("letters", "texts"),
    [
        ("abc", ("a b c",) * 3),
        ("abbbc", ("a ( b )*3 c", "a ( b )*4 c", "a ( b )*2+ c")),
        ("ababab", ("( a b )*3", "( a b )*4", "( a b )*2+")),
        # Exactly equal only in part; the inner counts 3 and 4 round alike, so the outer loop shows at L1.
        (
            "abbbabbbb",
            ("a ( b )*3 a ( b )*4", "( a ( b )*4 )*2", "( a ( b )*2+ )*2+"),
        ),
        # 2 and 4 do not round alike: the outer loop shows at L2.
        ("abbabbbb", ("a ( b )*2 a ( b )*4", "a ( b )*2 a ( b )*4", "( a ( b )*2+ )*2+")),
        # Two loops with equal bodies meet and become one, here and where a single body stands beside.
        (
            "abbbabbbabbbb",
            ("( a ( b )*3 )*2 a ( b )*4", "( a ( b )*4 )*4", "( a ( b )*2+ )*2+"),
        ),
        ("abbbbabbbabbb", ("a ( b )*4 ( a ( b )*3 )*2", "( a ( b )*4 )*4", "( a ( b )*2+ )*2+")),
    ],
)
def test_loops_by_level(letters: str, texts: tuple[str, str, str]) -> None:
    assert shown(letters) == texts


def test_positions_of_iterations_are_shared_and_counts_stay_exact() -> None:
    structure = fold("abbbabbbbc")
    assert structure.fold_position == (0, 1, 1, 1, 0, 1, 1, 1, 1, 2)
    assert structure.loops == (
        FoldedLoop(position=0, length=2, count=2, parallel=False),
        FoldedLoop(position=1, length=1, count=3, parallel=False),
        FoldedLoop(position=1, length=1, count=4, parallel=False),
    )


def test_branches_of_one_form_share_positions() -> None:
    names = [("s", c, None) for c in "pabbq"]
    structure = describe(Template.of_graph(names, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)], [4]))
    assert structure.fold_position == (0, 1, 2, 2, 3)
    assert structure.loops == (FoldedLoop(position=2, length=1, count=2, parallel=True),)


def test_levels_merge_what_differs_in_counts_only() -> None:
    three, four, nine, none = fold("abbbc"), fold("abbbbc"), fold("abbbbbbbbbc"), fold("abc")
    assert len({s.category for s in (three, four, nine, none)}) == 4
    assert three.category_l1 == four.category_l1 != nine.category_l1
    assert three.category_l2 == nine.category_l2 != none.category_l2
    assert none.canonical == none.canonical_l2


def test_a_block_counts_as_one_symbol() -> None:
    """fork { b | c } join, three times, in whatever order the branches are numbered."""
    names, edges, last = [("s", "a", None)], [], 0
    for branch in ("bc", "cb", "bc"):
        at = len(names)
        names += [("s", c, None) for c in ("f", *branch, "j")]
        edges += [(last, at), (at, at + 1), (at, at + 2), (at + 1, at + 3), (at + 2, at + 3)]
        last = at + 3
    structure = describe(Template.of_graph(names, edges, [last]))
    assert structure.canonical == "s/a ( s/f { s/b | s/c } s/j )*3"
    assert structure.fold_position == (0, 1, 2, 3, 4, 1, 3, 2, 4, 1, 2, 3, 4)


def opaque_block(first: int, *, to_second: bool) -> tuple[str, list[tuple[int, int]]]:
    """f forks into a h, b d e and b d g, which meet in j; a also precedes one of the two d: an N."""
    f, a, h, b1, d1, e, b2, d2, g, j = range(first, first + 10)
    edges = [(f, a), (f, b1), (f, b2), (a, h), (h, j), (b1, d1), (d1, e), (e, j), (b2, d2), (d2, g), (g, j)]
    return "fahbdebdgj", [*edges, (a, d2 if to_second else d1)]


@pytest.mark.parametrize("to_second", [False, True])
def test_blocks_with_revisits_fold_only_if_wired_alike(to_second: bool) -> None:
    one, edges = opaque_block(0, to_second=False)
    two, more = opaque_block(10, to_second=to_second)
    names = [("s", c, None) for c in one + two]
    structure = describe(Template.of_graph(names, [*edges, (9, 10), *more], [19]))
    assert structure.canonical.count("f") == (2 if to_second else 1)
    assert structure.canonical.count("^") == (2 if to_second else 1)


def test_keys_know_the_wiring_of_blocks_too_large_to_fold() -> None:
    """Four rails of one name; rails 2 and 3 feed 0 and 1 at each step, in one place crosswise."""

    def rails(crossed: int) -> Structure:
        edges = [(0, 1 + r) for r in range(4)] + [(n, n + 4) for n in range(1, 397)]
        for step in range(99):
            a, b = 3 + 4 * step, 4 + 4 * step
            edges += [(a, b + 2), (b, b + 1)] if step == crossed else [(a, b + 1), (b, b + 2)]
        return describe(Template.of_graph([("s", "p", None)] * 401, edges, [397, 398, 399, 400]))

    straight, crossed = rails(-1), rails(50)
    assert straight.category_l1 != crossed.category_l1
    assert straight.category_l2 != crossed.category_l2


def test_loops_nest_three_deep_and_bodies_have_sixteen_symbols() -> None:
    third = "( ( ( a )*2 b )*2 c )*2 d"
    assert shown("aabaabcaabaabcd" * 2)[0] == f"{third} {third}"
    body = "abcdefghijklmnop"
    assert shown(body * 2)[0] == f"( {' '.join(body)} )*2"
    assert "(" not in shown((body + "q") * 2)[0]


def test_long_chains_fold_as_short_ones() -> None:
    structure = fold("ab" * 2_000 + "c")
    assert structure.canonical == "( s/a s/b )*2000 s/c"
    assert structure.canonical_l1 == "( s/a s/b )*2048 s/c"


@pytest.mark.parametrize("n", [10, 400])
def test_repeats_choose_the_longest(n: int) -> None:
    """Runs of period 2 that overlap by one symbol: the longer one takes it. Both code paths."""
    symbols = [1, 2] * 2 + [1, 3] * n
    assert repeats(symbols, 2) == [Repeat(0, 2, 2), Repeat(4, 2, n)]
    symbols = [2, 1] * 2 + [3, 1] * n
    assert repeats(symbols, 2) == [Repeat(3, 2, n)]


def test_key_tells_every_column_apart() -> None:
    base = Template.of_graph([("s", "a", None), ("s", "b", None), ("s", "c", None)], [(0, 1), (0, 2)], [1])
    others = [
        replace(base, component=("s", "s", "t")),
        replace(base, point=("a", "b", "cc")),
        replace(base, label=(None, None, "")),
        replace(base, kind=(0, 0, 1)),
        replace(base, side=(0, 0, 1)),
        replace(base, mate=(-1, 2, 1)),
        replace(base, parent=(-1, 0, 0)),
        replace(base, deferred=(False, False, True)),
        replace(base, edges=((0, 1), (1, 2))),
        replace(base, responses=(1, 2)),
        # The same letters, cut elsewhere: lengths are part of the key.
        replace(base, component=("sa", "s", "s"), point=("", "b", "c")),
    ]
    assert len({describe(t).category for t in [base, *others]}) == len(others) + 1


def test_key_is_stable() -> None:
    """Stored in every lake: a change needs a new layout version."""
    structure = fold("abbbc")
    assert structure.category == "2e3865ca8053bd6ec7c3abf9ca8c963c"
    assert structure.category_l1 == "9d05d6f971617ba4b826ace2845b1207"
    assert structure.category_l2 == "41726e27a1175cfc87fb589288be7386"


def test_rows_survive_parquet(tmp_path) -> None:  # type: ignore[no-untyped-def]
    structures = [fold("abbbc"), fold("a"), describe(Template.of_graph([("s", "ä", "x/y")], [], [0]))]
    table = structures_table(structures)
    assert table.schema == STRUCTURES_SCHEMA
    pq.write_table(table, tmp_path / "structures.parquet")
    read = pq.read_table(tmp_path / "structures.parquet").to_pylist()
    assert [structure_from_row(row) for row in read] == structures
    assert structures_table([]).num_rows == 0
