"""Where the time went: the account adds up, the drawing shows all of it on one axis."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.paper_report import paper_outcome
from oracles.populations import category, constant_chain, graph, population
from oracles.shop import shop_outcome

from analyze.paths.alignment import align
from analyze.paths.critical_path import attribute
from analyze.population import Category
from analyze.report import wording
from analyze.report.drawing.accounts import bounded, structural_account, timing_account
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.steps import MOST_DIFFERENT, Fate, StepLine, step_lines
from schemas.report.mutations import MutationKind, MutationsSection
from schemas.report.parts import NodeName, StepAccount, StepRow

MANY = 10_000


@pytest.fixture(scope="module")
def shop() -> Outcome:
    return shop_outcome()


# Aligning


@pytest.mark.parametrize("seed", range(10))
def test_alignment_holds_every_position_once_and_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = [[f"{rng.integers(3)}/{rng.integers(4)}" for _ in range(rng.integers(0, 30))] for _ in range(2)]
    loose = [[name.split("/")[1] for name in side] for side in sides]
    pairs = align(sides[0], sides[1], loose[0], loose[1])
    for side in (0, 1):
        held = [pair[side] for pair in pairs if pair[side] is not None]
        assert held == list(range(len(sides[side])))
    assert (None, None) not in pairs
    both = [(loose[0][i], loose[1][j]) for i, j in pairs if i is not None and j is not None]
    assert all(a == b for a, b in both)


def test_work_of_another_component_stands_beside_what_it_replaces() -> None:
    before = ["nfs/CALL", "meta/WRITE", "meta/LOG", "nfs/REPLY"]
    after = ["nfs/CALL", "data/WRITE", "data/SYNC", "data/LOG", "nfs/REPLY"]
    loose = [[name.split("/")[1] for name in side] for side in (before, after)]
    assert align(before, after, *loose) == [(0, 0), (1, 1), (None, 2), (2, 3), (3, 4)]


# The account


def requests(rng: np.random.Generator, labels: list[str], edges: list[tuple[int, int]], n: int) -> Category:
    """Random latencies and weights; the second half of the requests is the problem sample."""
    g = graph(labels, edges)
    times = np.zeros((n, len(labels)), np.int64)
    for src, dst in g.edges:
        late = rng.integers(1_000, 90_000, n)
        times[:, dst] = np.maximum(times[:, dst], times[:, src] + late)
    return category(g, times, np.repeat([0, 1], n // 2), rng.uniform(1, 9, n))


def mean_us(c: Category, sample: int) -> float:
    rows = c.rows(sample)
    return float(np.average(c.response_ns[rows], weights=c.weight[rows]) / 1e3)


FORKED = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (0, 4), (4, 5)]


@pytest.mark.parametrize("limit", [MANY, 4])
def test_timing_account_adds_up_to_the_change_of_the_mean(limit: int) -> None:
    c = requests(np.random.default_rng(3), [f"svc/n{i}" for i in range(6)], FORKED, 60)
    found = attribute(c)
    account = timing_account(c, found, np.zeros(7, np.bool_), limit)
    assert account.mean0_us == pytest.approx(mean_us(c, 0))
    assert account.mean1_us == pytest.approx(mean_us(c, 1))
    assert sum(row.part_us for row in account.rows) == pytest.approx(mean_us(c, 1) - mean_us(c, 0))
    assert sum(row.steps for row in account.rows) == 6


def test_part_of_a_step_is_the_exact_part_of_the_edges_into_it() -> None:
    c = requests(np.random.default_rng(4), [f"svc/n{i}" for i in range(6)], FORKED, 60)
    found = attribute(c)
    changed = np.array([tuple(edge) == (2, 4) for edge in c.graph.edges.tolist()])
    rows = timing_account(c, found, changed, MANY).rows
    for step, row in enumerate(rows):
        into = c.graph.edges[:, 1] == step
        assert row.part_us == pytest.approx(found.contribution_us[into].sum(), abs=1e-9)
    assert [row.tested for row in rows] == [False, False, False, False, True, False]


def test_structural_account_holds_both_means_and_what_is_on_one_side_only() -> None:
    rng = np.random.default_rng(5)
    old = requests(rng, ["web/call", "meta/write", "meta/log", "web/reply"], [(0, 1), (1, 2), (2, 3)], 40)
    new = requests(
        rng,
        ["web/call", "data/write", "data/sync", "data/log", "web/reply"],
        [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)],
        60,
    )
    account = structural_account(new, old, MANY)
    assert (account.requests0, account.requests1) == (20, 30)
    assert account.mean0_us == pytest.approx(mean_us(old, 0))
    assert account.mean1_us == pytest.approx(mean_us(new, 1))
    assert sum(row.part_us for row in account.rows) == pytest.approx(mean_us(new, 1) - mean_us(old, 0))
    assert [(row.before and row.before.where, row.after and row.after.where) for row in account.rows] == [
        ("web", "web"),
        ("meta", "data"),
        (None, "data"),
        ("meta", "data"),
        ("web", "web"),
    ]


def test_a_structure_without_precursor_has_the_steps_of_itself() -> None:
    def drawn(n0: int) -> str:
        others = constant_chain(("batch/x", "batch/y"), 40, 40, 100, 100)
        p = population(constant_chain(("web/a", "db/b", "db/c"), n0, n0 + 90, 100, 600), others)
        outcome = paper_outcome(p)
        (mutation,) = (
            m for m in outcome.report.section(MutationsSection).mutations if m.kind is MutationKind.STRUCTURAL
        )
        assert mutation.no_precursor
        assert mutation.account is not None
        assert mutation.account.requests0 == n0
        assert mutation.account.mean1_us == pytest.approx(600)
        page = render_html(outcome.report, outcome.views)
        page = page[page.index("How long the response waited") :]
        return page[: page.index("</table>")].replace(wording.NBSP, " ")

    new = drawn(0)
    assert "90 requests after; there were none before." in new
    assert "parts add up" not in new
    assert '<td class="n" data-of="Before">–</td><td class="n" data-of="After">600 µs</td>' in new
    assert "+600 µs" not in new
    assert 'class="slower"' not in new
    known = drawn(40)
    assert "40 requests before and 130 after" in known
    assert "The parts add up to +500 µs." in known


def test_account_of_a_large_graph_keeps_the_largest_parts_and_the_sums() -> None:
    rows = [step(f"n{i}", 10.0, 10.0 + (500.0 if i in (70, 71, 300) else i % 3)) for i in range(400)]
    short = bounded(rows, 21)
    assert len(short) <= 21
    assert sum(row.steps for row in short) == 400
    assert sum(row.part_us for row in short) == pytest.approx(sum(row.part_us for row in rows))
    assert {"n70", "n71", "n300"} <= {row.after.what for row in short if row.after is not None}


def test_report_says_what_its_accounts_add_up_to(shop: Outcome) -> None:
    page = render_html(shop.report, shop.views)
    kinds = set()
    for mutation in shop.report.section(MutationsSection).mutations:
        account = mutation.account
        assert account is not None
        kinds.add(mutation.kind)
        before = (
            mutation.before if mutation.kind is MutationKind.RESPONSE_TIME else mutation.precursors[0].before
        )
        assert account.mean0_us == pytest.approx(before.mean_us)
        assert account.mean1_us == pytest.approx(mutation.after.mean_us)
        assert (account.requests0, account.requests1) == (before.count, mutation.after.count)
        parts = sum(row.part_us for row in account.rows)
        assert parts == pytest.approx(account.mean1_us - account.mean0_us)
        assert f"The parts add up to {wording.change(parts)}." in page
    assert kinds == set(MutationKind)


# The drawing


def step(
    name: str, before_us: float, after_us: float, *, side: str = "both", tested: bool = False
) -> StepRow:
    called = NodeName(component="svc", point=name)
    return StepRow(
        before=None if side == "after" else called,
        after=None if side == "before" else called,
        before_us=before_us,
        after_us=after_us,
        tested=tested,
    )


def account(rows: list[StepRow]) -> StepAccount:
    return StepAccount(
        category0="a" * 32,
        category1="b" * 32,
        requests0=10,
        requests1=20,
        mean0_us=sum(row.before_us for row in rows),
        mean1_us=sum(row.after_us for row in rows),
        rows=tuple(rows),
    )


LONG = [
    *(step(f"a{i}", 100.0, 101.0) for i in range(48)),
    step("slow", 200.0, 5_000.0),
    *(step(f"b{i}", 50.0, 50.0) for i in range(9)),
    step("new", 0.0, 40.0, side="after"),
    *(step(f"c{i}", 10.0, 10.0, tested=i == 2) for i in range(5)),
]


def test_what_changed_has_a_row_with_its_part_and_the_rest_is_folded() -> None:
    lines = step_lines(account(LONG))
    told = [line.text or (line.row.after or line.row.before).what for line in lines]
    assert told == [
        "a0",
        "46 unchanged steps",
        "a47",
        "slow",
        "9 unchanged steps",
        "new",
        "4 steps, 1 changed significantly",
        "c4",
    ]
    assert [line.heat for line in lines] == [
        *["quiet"] * 3,
        "slower",
        *["quiet"] * 4,
    ]
    assert [line.fate for line in lines if line.text == ""][-2] is Fate.GAINED
    fold = lines[1]
    assert (fold.row.before_us, fold.row.after_us) == (4_600, pytest.approx(4_646))


def everything(lines: tuple[StepLine, ...]) -> list[StepLine]:
    """Lines with those inside folds in their place."""
    return [inner for line in lines for inner in (line.inside or (line,))]


@pytest.mark.parametrize("rows", [LONG, LONG[:1], LONG[::-1]])
def test_all_bars_lie_on_one_axis_one_after_the_other(rows: list[StepRow]) -> None:
    drawn = account(rows)
    shown = step_lines(drawn)
    means = drawn.mean0_us, drawn.mean1_us
    scale = 100 / max(means)
    for lines in (shown, everything(shown)):
        for side in (0, 1):
            at = 0.0
            for line in lines:
                bar = line.bars[side]
                assert bar.left == pytest.approx(at)
                assert bar.width == pytest.approx((line.row.before_us, line.row.after_us)[side] * scale)
                at = bar.left + bar.width
            assert at == pytest.approx(means[side] * scale)
        assert sum(line.row.part_us for line in lines) == pytest.approx(means[1] - means[0])
    assert len(everything(shown)) == len(rows)


def test_a_few_steps_on_one_side_are_all_shown_many_only_if_they_matter() -> None:
    few = [
        step("a", 1, 1),
        *(step(f"x{i}", 0, 1, side="after") for i in range(MOST_DIFFERENT)),
        step("z", 9, 9),
    ]
    assert len(step_lines(account(few))) == MOST_DIFFERENT + 2
    many = [
        step("a", 1, 1),
        *(step(f"x{i}", 0, 500 if i == 20 else 1, side="after") for i in range(40)),
        step("z", 9, 9),
    ]
    lines = step_lines(account(many))
    assert [line.text for line in lines if line.text] == ["19 steps only after", "19 steps only after"]
    assert not lines[1].was_there
    assert lines[1].is_there


def test_a_stretch_that_moved_is_not_called_unchanged() -> None:
    rows = [
        step("a", 1, 1),
        *(step(f"b{i}", 10, 4) for i in range(9)),
        step("slow", 0, 9_000),
        step("z", 1, 1),
    ]
    lines = step_lines(account(rows))
    assert [line.text for line in lines if line.text] == ["8 steps, each with a small part"]


def test_replaced_steps_are_told_apart_from_kept_ones() -> None:
    moved = step("log", 5, 6).model_copy(update={"after": NodeName(component="other", point="log")})
    assert [line.fate for line in step_lines(account([step("a", 1, 1), moved]))] == [
        Fate.KEPT,
        Fate.REPLACED,
    ]


def test_run_of_the_model_says_how_many_steps_it_stands_for() -> None:
    run = StepRow(before=None, after=None, before_us=3, after_us=4, steps=1234)
    lines = step_lines(account([step("a", 1, 1), run, step("b", 2, 2)]))
    assert lines[1].text == "1,234 steps with small parts"
    assert lines[1].fate is Fate.FOLD


def test_an_account_without_time_is_drawn() -> None:
    assert len(step_lines(account([step("a", 0, 0), step("b", 0, 0)]))) == 2
