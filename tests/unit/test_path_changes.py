"""Whole paths end to end: moves named, like moves merged, quiet stays quiet, load and mix are no moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from oracles import paths as oracle
from oracles.paths import path
from oracles.populations import population

from analyze.paths.alignment import SignatureKind
from analyze.paths.changes import path_changes
from analyze.paths.moves import OTHER
from analyze.paths.settings import PathSettings
from analyze.population import DEFAULT_WINDOW_NS, Category, Population

S = PathSettings()


def moved(factor: float = 1.0) -> Population:
    """400 of 1,000 writes go to sn-data instead of sn-meta, in two contexts, and get slower."""

    def n(before: int, after: int) -> tuple[int, int]:
        return before, round(after * factor)

    return population(
        path(["MDS/write", "sn-meta/put", "MDS/reply"], n(700, 450), (1_000, 1_000)),
        path(["MDS/write", "sn-data/put", "MDS/reply"], n(100, 350), (3_000, 3_000)),
        path(["MDS/write", "cache/ask", "sn-meta/put", "MDS/reply"], n(250, 100), (1_200, 1_200)),
        path(["MDS/write", "cache/ask", "sn-data/put", "MDS/reply"], n(20, 170), (3_200, 3_200)),
        path(["MDS/read", "cache/ask", "MDS/reply"], n(900, 900), (500, 500)),
    )


def test_moves_of_one_kind_are_one_group_with_a_name() -> None:
    found = path_changes(moved(), None, S)
    (group,) = [g for g in found.groups if not (g.new or g.lost)]
    assert group.lead.signature is not None
    assert group.lead.signature.move is SignatureKind.REPLACED
    (before, after) = group.lead.signature.replaced[0]
    assert (before.operation, after.operation) == ("sn-meta/put", "sn-data/put")
    kinds = {
        (found.table.graphs[m.source].labels[1:-1], found.table.graphs[m.target].labels[1:-1])
        for m in (one.move for one in group.members)
    }
    assert (("sn-meta/put",), ("sn-data/put",)) in kinds
    assert (("cache/ask", "sn-meta/put"), ("cache/ask", "sn-data/put")) in kinds
    assert group.share == pytest.approx(400 / 1_970, rel=0.1)
    assert group.contribution_us == pytest.approx(2_000 * 400 / 1_970, rel=0.1)
    assert all(m.confidence is not None and m.confidence > 0.6 for m in (one.move for one in group.members))
    mix, structure, timing, rest = found.account.sums_us
    assert structure == pytest.approx(found.account.change_us, rel=0.1)
    assert abs(mix) + abs(rest) < 0.1 * abs(found.account.change_us)
    assert timing == 0


def test_load_changes_no_share() -> None:
    plain, loaded = path_changes(moved(), None, S), path_changes(moved(3.0), None, S)
    assert [g.lead.partners for g in loaded.groups] == [g.lead.partners for g in plain.groups]
    np.testing.assert_allclose(loaded.shares.of_root, plain.shares.of_root, atol=2e-3)


def quiet(seed: int, windows: int = oracle.WINDOWS) -> Population:
    rng = np.random.default_rng(seed)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    names = [
        ["r", "a", "z"],
        ["r", "a", "b", "z"],
        ["r", "c", "z"],
        ["r", "d", "z"],
        ["r", "e", "f", "z"],
        ["r", "g", "z"],
    ]
    counts = np.stack([rng.multinomial(n, shares) for n in (1_500, 2_200)])
    return population(
        *(
            path(labels, (int(counts[0, i]), int(counts[1, i])), (400, 410), seed=seed, windows=windows)
            for i, labels in enumerate(names)
        )
    )


@pytest.mark.parametrize("windows", [1, oracle.WINDOWS])
def test_quiet_periods_have_no_moves(windows: int) -> None:
    found = [path_changes(quiet(seed, windows), None, S) for seed in range(25)]
    assert sum(len(f.groups) + len(f.repeats) + int(f.times.changed.sum()) for f in found) <= 1
    assert all(f.table.noise_assumed == (windows == 1) for f in found)


def test_a_slower_path_is_a_time_and_no_move() -> None:
    found = path_changes(
        population(
            path(["r", "a", "z"], (500, 500), (400, 900)),
            path(["r", "b", "z"], (500, 500), (300, 300)),
            path(["r", "few", "z"], (8, 9), (300, 1_500)),
        ),
        None,
        S,
    )
    names = [found.table.graphs[i].labels[1] for i in np.flatnonzero(found.times.changed)]
    assert sorted(names) == ["a", "few"]
    assert not found.groups
    assert found.account.sums_us[2] == pytest.approx(found.account.change_us, rel=0.05)


def test_a_new_path_without_a_precursor_is_held_against_the_usual_one() -> None:
    # Many paths give a little each, none of them by test.
    steady = [path(["r", f"p{i}", "z"], (240, 232), (500, 500), seed=i) for i in range(12)]
    found = path_changes(population(*steady, path(["r", "new", "z"], (0, 90), (2_000, 2_000))), None, S)
    (group,) = found.groups
    assert group.new
    assert not group.lost
    assert group.lead.move.source == OTHER
    assert found.table.graphs[group.lead.move.target].labels[1] == "new"
    assert group.contribution_us == pytest.approx(1_500 * 90 / 2_874, rel=0.1)


def windows_of(labels: list[str], counts: np.ndarray) -> Category:
    """Requests of 500 us; counts: of each window of the reference, and as many of the problem."""
    total, per_side = int(counts.sum()), len(counts) // 2
    start = np.repeat(np.arange(len(counts)), counts) * DEFAULT_WINDOW_NS
    made = path(labels, (1, 1), (500, 500))
    return replace(
        made,
        node_ns=np.repeat(made.node_ns[:, :1], total, axis=1),
        response_ns=np.full(total, 500_000),
        start_ns=start,
        weight=np.ones(total),
        sample=(start >= per_side * DEFAULT_WINDOW_NS).astype(np.uint8),
        status=np.repeat(made.status[:1], total),
        request_id=made.request_id.take(np.zeros(total, np.int64)),
    )


def wandering(seed: int, cv: float, moved: float = 1.0) -> Population:
    """60 paths in 8 windows of either period, whose shares move by `cv` between windows; the first, most
    frequent one has `moved` times its share in the problem."""
    rng = np.random.default_rng(seed)
    shares = np.sort(np.random.default_rng(3).dirichlet(np.full(60, 0.6)))[::-1]
    rate = shares * rng.gamma(1 / cv**2, cv**2, (16, 60))
    rate[8:, 0] *= moved
    counts = rng.poisson(rate * 20_000)
    return population(
        *(windows_of(["r", f"p{i}", "z"], counts[:, i]) for i in range(60) if counts[:, i].any())
    )


@pytest.mark.parametrize("cv", [0.05, 0.2])
def test_shares_that_move_between_windows_are_no_moves(cv: float) -> None:
    """At most two groups in five comparisons of 60 paths each, all of them noise."""
    assert sum(len(path_changes(wandering(seed, cv), None, S).groups) for seed in range(5)) <= 2


def test_a_share_that_falls_by_more_than_between_windows_is_found() -> None:
    found = path_changes(wandering(1, 0.05, moved=0.6), None, S)
    lost = [found.table.graphs[i].labels[1] for i in np.flatnonzero(found.tests.lost)]
    assert "p0" in lost


def test_rare_paths_are_tested_together() -> None:
    usual = path(["r", "usual", "z"], (2_000, 2_000), (500, 500))
    kinds = [path(["r", f"odd{i}", "z"], (0, 3), (500, 500), seed=i) for i in range(40)]
    found = path_changes(population(usual, *kinds), None, S)
    assert found.tests.rare_changed.tolist() == [True]
    assert found.tests.new_kinds.tolist() == [40]
    assert found.tests.tested.sum() == 1
    # All of them are attributed, though none could be tested by itself.
    assert found.tests.gained.sum() == 40
    assert sum(g.share for g in found.groups) == pytest.approx(120 / 2_120, rel=0.1)


def test_rare_paths_that_come_and_go_are_no_move() -> None:
    flagged = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(1.0, (150, 2))
        kinds = [
            path(["r", f"odd{i}", "z"], (int(a), int(b)), (500, 500), seed=seed)
            for i, (a, b) in enumerate(counts.tolist())
            if a + b
        ]
        usual = path(["r", "usual", "z"], (2_000, 2_000), (500, 500), seed=seed)
        flagged += bool(path_changes(population(usual, *kinds), None, S).groups)
    assert flagged <= 1


def test_repeats_of_a_loop_are_one_row() -> None:
    def loop(times: int, counts: tuple[int, int]) -> Category:
        return path(["r", *["store/read", "store/check"] * times, "z"], counts, (100 * times + 100,) * 2)

    before, after = [300, 200, 80, 20], [60, 120, 250, 170]
    categories = [loop(i + 1, (b, a)) for i, (b, a) in enumerate(zip(before, after, strict=True))]
    found = path_changes(population(*categories), None, S)
    (change,) = found.repeats
    assert change.roots == ("r",)
    assert change.categories == 4
    assert change.operation.text == "store/read"
    assert change.operations == 2
    assert change.before == pytest.approx(1_020 / 600)
    assert change.after == pytest.approx(1_730 / 600)
    assert change.contribution_us == pytest.approx(100 * (1_730 - 1_020) / 600, rel=0.1)
    assert {g.lead.signature.move for g in found.groups if g.lead.signature} == {SignatureKind.REPEATS}


def test_the_same_loop_of_two_roots_is_one_row() -> None:
    def loop(root: str, times: int, counts: tuple[int, int]) -> Category:
        return path([root, *["store/read"] * times, "z"], counts, (100 * times + 100,) * 2)

    found = path_changes(
        population(
            *(loop(root, n, counts) for root in ("r", "s") for n, counts in ((1, (300, 100)), (3, (60, 250))))
        ),
        None,
        S,
    )
    (change,) = found.repeats
    assert change.roots == ("r", "s")
    assert change.requests0 == 720
    assert change.before == pytest.approx(480 / 360)
    assert change.contribution_us == pytest.approx(100 * (850 / 350 - 480 / 360), rel=0.1)


def test_moves_that_differ_in_little_else_are_one_group() -> None:
    def ways(*extra: str) -> list[Category]:
        before, after = [f"m/{x}" for x in "pqrstu"], [f"d/{x}" for x in "pqrstu"]
        return [
            path(["c/w", *before, *extra, "c/e"], (400, 150), (1_000, 1_000)),
            path(
                ["c/w", "k/k", *after, "c/e"],
                (10 if not extra else 0, 260 if not extra else 0),
                (2_000, 2_000),
            ),
        ]

    categories = [c for extra in ((), ("x/x",)) for c in ways(*extra) if c.n_requests]
    late = path(["c/w", "k/k", *[f"d/{x}" for x in "pqrstu"], "y/y", "c/e"], (5, 255), (2_100, 2_100))
    found = path_changes(population(*categories, late), None, S)
    assert len([g for g in found.groups if g.share > 0.01]) == 1
    assert len(found.groups[0].members) >= 2


def test_history_shows_how_much_shares_move_on_their_own() -> None:
    rng = np.random.default_rng(5)

    def pair(share: float, seed: int) -> Population:
        here = (round(1_000 * share), round(1_000 * (1 - share)))
        return population(
            path(["r", "a", "z"], (here[0], 620), (500, 500), seed=seed, windows=1),
            path(["r", "b", "z"], (here[1], 380), (500, 500), seed=seed, windows=1),
        )

    current = pair(0.45, 0)
    assert path_changes(current, None, S).groups
    wild = [pair(float(rng.uniform(0.3, 0.7)), seed).of_samples(0, 1) for seed in range(1, 13)]
    history = population(
        *(_joined([p.categories[i] for p in wild]) for i in range(2)),
        samples=tuple(p.samples[0] for p in wild),
    )
    assert not path_changes(current, history, S).groups
    assert path_changes(current, history, S).table.blocks == (1, 12)


def _joined(parts: list[Category]) -> Category:
    """Requests of many samples in one category."""
    return replace(
        parts[0],
        node_ns=np.concatenate([p.node_ns for p in parts], axis=1),
        response_ns=np.concatenate([p.response_ns for p in parts]),
        start_ns=np.concatenate([p.start_ns for p in parts]),
        weight=np.concatenate([p.weight for p in parts]),
        sample=np.repeat(np.arange(len(parts), dtype=np.uint8), [p.n_requests for p in parts]),
        status=np.concatenate([p.status for p in parts]),
        request_id=pa.concat_arrays([p.request_id for p in parts]),
    )


def test_nothing_in_nothing_out() -> None:
    found = path_changes(population(path(["r", "a", "z"], (5, 0), (500, 500))), None, S)
    assert found.account.change_us == 0
    assert not found.groups


def test_the_same_twice() -> None:
    one, two = (path_changes(moved(), None, S) for _ in range(2))
    assert one.groups == two.groups
    assert one.account.sums_us == two.account.sums_us
