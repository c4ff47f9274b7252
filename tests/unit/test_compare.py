"""Paper mode from population to report model: what is found, ranked, summed, and bounded."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from oracles.paper_report import SECTIONS, named, paper_outcome, paper_report
from oracles.populations import category, chain, constant_chain, graph, population
from pydantic import ValidationError

from analyze.methods.paper.rows import fair_shares
from analyze.population import Category, Population, Sample
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot
from analyze.profile.samples import ComparedSamples
from analyze.report.header import excluded_notes
from analyze.report.limits import ReportLimits
from schemas.errors import PeriodError
from schemas.report.mutations import (
    CategoriesSection,
    Direction,
    MutationKind,
    MutationsSection,
    Role,
    RootsSection,
)
from schemas.report.report import content_id, from_json, to_json

CALM, LOST, GAINED = ("read", "hit", "done"), ("read", "disk", "done"), ("read", "disk", "retry", "done")


run = paper_report


def moved(gained: int = 60, lost: int = 80, us0: int = 2000, us1: int = 5000) -> list[Category]:
    """`lost` requests left LOST (2 ms), `gained` came to GAINED (5 ms); CALM stands still."""
    return [
        constant_chain(CALM, 100, 100, 1000, 1000),
        constant_chain(LOST, 100, 100 - lost, us0, us0),
        constant_chain(GAINED, 5, 5 + gained, us1, us1),
    ]


def slowed(extra_us: int = 400) -> Category:
    """Second of three edges slower by `extra_us` after; the others jitter alike in both periods."""
    rng = np.random.default_rng(5)
    rows = rng.integers(100_000, 140_000, (80, 3))
    rows[40:, 1] += extra_us * 1000
    return chain(("write", "lock", "log", "done"), rows[:40].tolist(), rows[40:].tolist())


def test_structural_mutation_with_its_precursor():
    found = run(population(*moved()))
    assert found.report.verdict.outcome == "mutations"
    ranked = found.ranked
    assert (ranked.structural_total, ranked.response_time_total, ranked.precursors_total) == (1, 0, 1)
    (m,) = found.mutations
    assert m.kind is MutationKind.STRUCTURAL
    assert (m.before.count, m.after.count) == (5, 65)
    assert [p.edits for p in m.precursors] == [1]
    assert m.precursors[0].share == 1
    # 60 more requests, 5 ms against the precursor's problem-period mean of 2 ms.
    assert m.contribution_us == m.contribution_nsdi_us == m.contribution_tr_us == 60 * 3000
    assert m.direction is Direction.INCREASE
    assert m.baseline_mean_us == 2000
    assert not m.one_to_n_relaxed
    assert not m.no_precursor


def test_precursors_are_weighted_by_similarity():
    # Distances 1 and 3; over the longer, 1/4 and 3/4.
    lost_far = constant_chain(("read", "net"), 90, 10, 9000, 9000)
    p = population(*moved(), lost_far)
    m = run(p).mutations[0]
    assert [x.edits for x in m.precursors] == [1, 3]
    near, far = 1 / 2, 1 / 4
    assert m.baseline_mean_us == pytest.approx((near * 2000 + far * 9000) / (near + far))
    near_n, far_n = 1 - 1 / 4, 1 - 3 / 4
    tr = (near_n * 2000 + far_n * 9000) / (near_n + far_n)
    assert m.contribution_tr_us == pytest.approx(60 * (5000 - tr))
    by_tr = run(p, ranking="tr").mutations[0]
    assert by_tr.contribution_us == by_tr.contribution_tr_us == m.contribution_tr_us
    assert by_tr.contribution_nsdi_us == m.contribution_nsdi_us == m.contribution_us != m.contribution_tr_us
    released = run(p, variant="released").mutations[0]
    # Edges: r d d y y o | r d d o: 2 of 6. Against r n (net): r d d t t o | r n: 5 of 6.
    weights = 1 / (2 / 6), 1 / (5 / 6)
    mean = (weights[0] * 2000 + weights[1] * 9000) / sum(weights)
    assert released.contribution_us == pytest.approx(60 * (5000 - mean))


def test_of_equally_near_precursors_the_one_that_lost_more_comes_first():
    gained = constant_chain(GAINED, 0, 60, 0, 5000)
    # Distance 1 each: 200 → 110 lost 90, 400 → 330 lost 70.
    more, less = ("read", "disk", "done"), ("read", "retry", "done")
    p = population(gained, constant_chain(more, 200, 110, 9, 9), constant_chain(less, 400, 330, 9, 9))
    m = run(p).mutations[0]
    assert [(x.edits, x.before.count - x.after.count) for x in m.precursors] == [(1, 90), (1, 70)]
    other = population(gained, constant_chain(more, 400, 330, 9, 9), constant_chain(less, 200, 110, 9, 9))
    m = run(other).mutations[0]
    assert [x.before.count - x.after.count for x in m.precursors] == [90, 70]


def test_where_the_mean_stands_still_increases_come_first():
    # Structures changed at equal means (costs nothing), and two roots moved by as much against each other.
    neutral = [constant_chain(LOST, 80, 0, 2000, 0), constant_chain(GAINED, 0, 80, 0, 2000)]
    moved_apart = [
        constant_chain(("u", "a"), 40, 40, 1000, 900),
        constant_chain(("v", "a"), 40, 40, 1000, 1100),
    ]
    found = run(population(*neutral, *moved_apart))
    assert found.change.delta_us == 0
    assert [m.contribution_us for m in found.mutations] == [4000, 0, -4000]
    assert [m.direction for m in found.mutations] == [
        Direction.INCREASE,
        Direction.INCREASE,
        Direction.DECREASE,
    ]


def test_vanished_precursor_keeps_its_old_mean():
    gone = [constant_chain(LOST, 100, 0, 2000, 0), constant_chain(GAINED, 0, 90, 0, 5000)]
    m = run(population(*gone)).mutations[0]
    assert m.contribution_us == 90 * 3000
    assert m.before.mean_us is None
    assert m.precursors[0].after.count == 0


def test_one_to_n_drops_a_precursor_that_lost_too_little():
    small = constant_chain(("read", "cache", "disk", "done"), 60, 8, 1000, 1000)  # lost 52 < 60
    p = population(*moved(), small)
    assert len(run(p).mutations[0].precursors) == 1
    assert len(run(p, one_to_n=False).mutations[0].precursors) == 2


def test_many_precursors_of_one_mutation_are_found_without_one_to_n():
    lost = [constant_chain(("read", f"disk{i}", "done"), 60, 0, 4000, 0) for i in range(3)]
    m = run(population(*lost, constant_chain(("read", "done"), 10, 190, 100, 100))).mutations[0]
    assert m.one_to_n_relaxed
    assert m.precursors_total == 3
    assert m.contribution_us == 180 * (100 - 4000)
    assert m.direction is Direction.DECREASE


def test_without_any_precursor_the_root_mean_is_used():
    p = population(constant_chain(CALM, 100, 100, 1000, 1000), constant_chain(GAINED, 0, 100, 0, 5000))
    m = run(p).mutations[0]
    assert m.no_precursor
    assert not m.one_to_n_relaxed
    assert m.precursors == ()
    assert m.contribution_us == 100 * (5000 - 3000)
    assert m.difference is None


def test_a_precursor_of_another_root_is_none():
    p = population(constant_chain(("list", "disk"), 100, 0, 2000, 0), constant_chain(GAINED, 0, 90, 0, 5000))
    assert run(p).mutations[0].no_precursor


def test_response_time_mutation_and_its_reddest_edge():
    (m,) = run(population(slowed())).mutations
    assert m.kind is MutationKind.RESPONSE_TIME
    reddest = m.edges[0]
    assert (reddest.src_label, reddest.dst_label, reddest.changed) == ("lock", "log", True)
    assert m.edges_total == 3
    assert m.after.mean_us is not None
    assert m.before.mean_us is not None
    change = m.after.mean_us - m.before.mean_us
    assert sum(e.attribution_us for e in m.edges) == pytest.approx(change, rel=1e-9)
    assert reddest.attribution_us / change > 0.9
    assert m.contribution_us == pytest.approx(40 * change)
    assert m.displaced_us == pytest.approx(change - sum(e.attribution_us for e in m.edges if e.changed))
    assert m.recoverable_us == pytest.approx(400, rel=0.1)


def test_faster_is_flagged_in_the_text_variant_only():
    faster = slowed(-90)
    assert run(population(faster)).mutations[0].direction is Direction.DECREASE
    assert run(population(faster), variant="released").mutations == ()


def test_category_of_both_kinds_is_ranked_twice():
    rng = np.random.default_rng(1)
    rows = rng.integers(100_000, 120_000, (120, 2))
    rows[30:] += 50_000
    found = run(population(chain(("r", "a", "b"), rows[:30].tolist(), rows[30:].tolist())))
    assert {m.kind for m in found.mutations} == set(MutationKind)
    assert all(m.virtual for m in found.mutations)
    assert found.categories[0].roles == (Role.STRUCTURAL, Role.RESPONSE_TIME)


def test_response_time_mutation_that_is_a_precursor_is_split_by_the_tech_report_only():
    rng = np.random.default_rng(1)
    rows = rng.integers(100_000, 120_000, (120, 2))
    rows[90:] += 50_000
    p = population(chain(("r", "a", "b"), rows[:90].tolist(), rows[90:].tolist()), slowed())
    assert {m.virtual for m in run(p).mutations} == {""}
    notes = {m.root: m.virtual for m in run(p, ranking="tr").mutations}
    assert "precursor" in notes["r"]
    assert notes["write"] == ""


def test_the_direction_of_the_change_ranks_first_then_size():
    slower = run(population(*moved(), slowed(3000), slowed_in("other", -90)))
    faster = run(population(slowed(10), slowed_in("other", -90_000)))
    for found, first in ((slower, Direction.INCREASE), (faster, Direction.DECREASE)):
        assert (found.change.delta_us > 0) == (first is Direction.INCREASE)
        assert [m.direction is first for m in found.mutations] == sorted(
            (m.direction is first for m in found.mutations), reverse=True
        )
        for way in Direction:
            sizes = [abs(m.contribution_us) for m in found.mutations if m.direction is way]
            assert sizes == sorted(sizes, reverse=True)
    found = slower
    assert [m.rank for m in found.mutations] == [1, 2, 3]
    assert {m.direction for m in found.mutations} == set(Direction)
    assert sum(m.share_of_listed for m in found.mutations) == pytest.approx(1)


def slowed_in(root: str, extra_us: int) -> Category:
    rng = np.random.default_rng(6)
    rows = rng.integers(100_000, 140_000, (80, 2))
    rows[40:, 1] += extra_us * 1000
    return chain((root, "a", "b"), rows[:40].tolist(), rows[40:].tolist())


def test_exact_sums_are_the_total_change():
    found = run(population(*moved(), slowed(), constant_chain(("x", "y"), 0, 3, 0, 50)))
    s = found.sums
    assert s.structural_exact_us + s.response_time_exact_us == pytest.approx(s.total_change_us, rel=1e-12)
    assert s.total_change_us == pytest.approx(found.problem.total_us - found.reference.total_us)
    assert s.structural_error == pytest.approx(
        (s.structural_estimate_us - s.structural_exact_us) / abs(s.structural_exact_us)
    )
    assert sum(c.change_us for c in found.categories) == pytest.approx(s.total_change_us)


def test_nothing_changed():
    found = run(population(constant_chain(CALM, 40, 40, 1000, 1000)))
    assert found.report.verdict.outcome == "no-mutation"
    assert found.mutations == ()
    assert found.change.delta_us == 0
    assert "in both periods" in found.report.headline.sentence


@pytest.mark.parametrize("categories", [[], [constant_chain(CALM, 40, 0, 1000, 0)]])
def test_a_period_without_requests_is_refused(categories: list[Category]):
    empty = "problem" if categories else "reference"
    with pytest.raises(PeriodError, match=f"No request of the {empty} period can be tested"):
        run(population(*categories))


def test_weights_move_means_and_not_counts():
    offsets = np.array([[0, 1000]] * 3 + [[0, 5000]] * 3)
    c = category(graph(("r", "s")), offsets, np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 1, 1, 10, 10, 10]))
    found = run(population(c))
    assert (found.problem.requests, found.problem.weighted_requests) == (3, 30)
    assert any("Sampling differs" in note for note in found.report.notes)


def test_notes_tell_what_was_left_out_and_that_load_differs():
    p = population(constant_chain(CALM, 40, 90, 1000, 1000), excluded={"CYCLE": (2, 1)}, notes=("Clocks!",))
    found = run(p)
    assert found.reference.excluded == {"CYCLE": 2}
    assert "2 requests of the reference, 1 of the problem" in found.report.notes[0]
    assert "×2.25 as many requests" in found.report.notes[1]
    assert found.report.notes[2] == "Clocks!"


def test_a_period_that_is_alone_is_named_once():
    p = population(constant_chain(CALM, 40, 40, 1000, 1000), excluded={"CYCLE": (1,)})
    alone = run(population(constant_chain(CALM, 40, 40, 1000, 1000))).report.samples[:1]
    named = (alone[0].model_copy(update={"name": "period"}),)
    assert excluded_notes(named, p) == ("Left out of every test as CYCLE: 1 request of the period.",)
    other = (alone[0].model_copy(update={"name": "monday"}),)
    assert excluded_notes(other, p) == ("Left out of every test as CYCLE: 1 request of the monday period.",)


def load_ratio(p: Population) -> float | None:
    """Of samples that are as long as their requests reach."""
    change = paper_outcome(p).report.headline.change
    assert change is not None
    return change.load_ratio


def test_load_is_counted_over_the_time_in_which_there_was_traffic():
    p = population(constant_chain(CALM, 11, 21, 1000, 1000))  # start_ns 0..10 and 11..31
    assert load_ratio(p) == pytest.approx((21 / 20) / (11 / 10))
    assert load_ratio(population(constant_chain(CALM, 11, 1, 9, 9))) is None


def test_load_is_that_of_all_requests_whatever_part_was_kept():
    (calm,) = population(constant_chain(CALM, 11, 11, 1000, 1000)).categories
    sampled = replace(calm, weight=np.where(calm.sample == 1, 4.0, 1.0))
    assert load_ratio(population(sampled)) == pytest.approx(4)
    profile = profile_of(population(sampled), [Slot(0, 0, 11), Slot(1, 11, 22)]).profile
    assert profile.responses.num_rows == 2
    kept = ComparedSamples.of_statistics((Sample("a"), Sample("b")), profile)
    assert kept.traffic.load_ratio == pytest.approx(4)


def test_statistics_and_requests_tell_one_load_where_a_stretch_is_empty():
    """Half of the problem period has no request, and so no statistics: that time was watched, too."""
    made = constant_chain(CALM, 400, 200, 1000, 1000)
    start = np.concatenate([np.arange(400), 400 + np.arange(100), 700 + np.arange(100)]) * 10**9
    found = population(replace(made, start_ns=start))
    ranges = [(at * 10**9, (at + 100) * 10**9) for at in (0, 100, 200, 300, 400, 700)]
    slots = [Slot(int(low >= 400 * 10**9), low, high) for low, high in ranges]
    samples = tuple(Sample(n, "", at * 10**9, (at + 400) * 10**9) for n, at in (("a", 0), ("b", 400)))
    kept = ComparedSamples.of_statistics(samples, profile_of(found, slots).profile)
    requests = ComparedSamples(replace(found, samples=samples))
    ratios = [one.traffic.load_ratio for one in (kept, requests)]
    assert ratios == [pytest.approx(0.5, rel=0.01)] * 2


def test_json_round_trip_and_version():
    found = run(population(*moved(), slowed())).report
    text = to_json(found)
    assert from_json(text, SECTIONS) == found
    assert "NaN" not in text
    with pytest.raises(ValidationError):
        from_json(text.replace('"schema_version": 3', '"schema_version": 2'), SECTIONS)


def test_a_report_is_read_without_its_method():
    found = run(population(*moved(), slowed())).report
    read = from_json(to_json(found), [MutationsSection])
    assert read.section(MutationsSection) == found.section(MutationsSection)
    assert [section.section for section in read.sections] == [section.section for section in found.sections]
    with pytest.raises(KeyError, match="RootsSection"):
        read.section(RootsSection)
    assert to_json(read) == to_json(found)
    assert content_id(read) == found.id


def test_same_input_same_bytes_and_the_id_is_of_the_content():
    first, second = (run(population(*moved(), slowed())).report for _ in range(2))
    assert to_json(first) == to_json(second)
    told = paper_outcome(named(population(*moved(), slowed())), source="lake").report
    assert told.id == first.id == content_id(told)
    assert run(population(*moved(), slowed()), sm_threshold=49).report.id != told.id


def test_lists_are_bounded_and_say_of_how_many():
    many = [constant_chain(("read", f"p{i:02}", "done"), 0, 60 + i, 0, 1000) for i in range(12)]
    limits = ReportLimits(mutations=5, detailed=2, categories=3, roots=1, canonical_chars=80)
    found = run(population(*many, constant_chain(("x", "y"), 1, 1, 5, 5)), limits=limits)
    assert (len(found.mutations), found.ranked.mutations_total) == (5, 12)
    assert (len(found.categories), found.report.section(CategoriesSection).categories_total) == (3, 13)
    roots = found.report.section(RootsSection)
    assert (len(roots.roots), roots.roots_total) == (1, 2)
    assert len(found.ranked.graphs) == 2
    assert [bool(m.histograms) for m in found.mutations] == [True, True, False, False, False]
    assert found.tables["mutations"].num_rows == 12
    assert found.tables["categories"].num_rows == 13


def test_each_direction_has_its_share_of_a_short_report():
    worse = [constant_chain(("read", f"p{i:02}", "done"), 0, 100, 0, 9000 + i) for i in range(6)]
    better = [slowed_in(f"r{i}", -90) for i in range(3)]
    limits = ReportLimits(mutations=5, detailed=2)
    ballast = constant_chain(("read", "x"), 200, 200, 100, 100)
    found = run(population(*worse, *better, ballast), limits=limits)
    assert found.ranked.mutations_total == 9
    assert [m.rank for m in found.mutations] == [1, 2, 3, 7, 8]
    assert [m.rank for m in found.mutations if m.histograms] == [1, 7]


def test_a_short_report_of_one_signed_list_keeps_both_ends():
    # Costs by hand, requests·ms, `released`: +240 +180 +120 -60 -120 -180, the last three by what they save.
    roots = [constant_chain((f"w{us}", "old", "done"), 80, 20, 5000, 5000) for us in (9, 8, 7, 4, 3, 2)]
    gained = [constant_chain((f"w{us}", "new", "done"), 0, 60, 0, us * 1000) for us in (9, 8, 7, 4, 3, 2)]
    found = run(population(*roots, *gained), limits=ReportLimits(mutations=4, detailed=2), variant="released")
    assert [m.contribution_us for m in found.mutations] == [240_000, 180_000, -120_000, -180_000]
    assert [m.rank for m in found.mutations] == [1, 2, 5, 6]
    assert [m.rank for m in found.mutations if m.histograms] == [1, 6]
    assert [(ranked.direction, ranked.ranks) for ranked in found.ranked.lists] == [(None, (1, 2, 5, 6))]


@pytest.mark.parametrize(
    ("increases", "decreases", "limit", "shares"),
    [
        (9, 9, 5, (3, 2)),
        (9, 1, 5, (4, 1)),
        (1, 9, 5, (1, 4)),
        (9, 9, 1, (1, 0)),
        (2, 1, 9, (2, 1)),
        (9, 9, 0, (0, 0)),
    ],
)
def test_fair_shares(increases: int, decreases: int, limit: int, shares: tuple[int, int]):
    ways = [Direction.INCREASE] * increases + [Direction.DECREASE] * decreases
    assert fair_shares(ways, limit) == dict(zip(Direction, shares, strict=True))


@pytest.mark.parametrize(("us", "way"), [(20, Direction.DECREASE), (3000, Direction.INCREASE)])
def test_a_mutation_that_costs_nothing_goes_last_with_the_change(us: int, way: Direction):
    neutral = [constant_chain(LOST, 80, 0, 2000, 0), constant_chain(GAINED, 0, 80, 0, 2000)]
    found = run(population(*neutral, constant_chain(("x", "y"), 40, 40, 1000, us)))
    assert [m.contribution_us for m in found.mutations] == [40 * (us - 1000), 0]
    assert [m.direction for m in found.mutations] == [way, way]


def test_stored_keys_are_told_of_mutations_precursors_and_categories():
    outcome = run(population(*moved()))
    (m,) = outcome.mutations
    assert (m.stored, m.stored_total) == ((m.category,), 1)
    (before,) = m.precursors
    assert (before.stored, before.stored_total) == ((before.category,), 1)
    for name in ("mutations", "precursors", "categories"):
        rows = outcome.tables[name].to_pylist()
        assert rows
        assert [row["stored"] for row in rows] == [[row["category"]] for row in rows]


def test_tables_hold_what_the_model_holds():
    outcome = run(population(*moved(), slowed()))
    tables, found = outcome.tables, outcome
    assert tables["mutations"]["contribution_us"].to_pylist() == [m.contribution_us for m in found.mutations]
    timing = next(m for m in found.mutations if m.kind is MutationKind.RESPONSE_TIME)
    edges = tables["edges"].to_pylist()
    assert {(e["src"], e["dst"], e["ks_p"]) for e in edges} == {(e.src, e.dst, e.ks.p) for e in timing.edges}
    assert sum(e["attribution_us"] for e in edges) == pytest.approx(
        sum(e.attribution_us for e in timing.edges)
    )
    assert tables["precursors"].num_rows == 1
    assert tables["categories"]["category"].to_pylist() == [c.category for c in found.categories]
    for table in tables.values():
        assert all(field.metadata[b"doc"] for field in table.schema)
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert not any(value is not None and math.isnan(value) for value in column.to_pylist())


def test_requests_of_mutations_and_precursors():
    """Two mutations share a precursor: it is listed once, at the better rank; all else by rank."""
    lost = constant_chain(LOST, 300, 100, 2000, 2000)
    more, less = constant_chain(GAINED, 0, 60, 0, 9000), constant_chain(("read", "retry"), 0, 50, 0, 9000)
    outcome = run(population(lost, more, less, slowed(3000)))
    keys = {name: c.graph.key for name, c in (("lost", lost), ("more", more), ("less", less))}
    ranks = {m.category: m.rank for m in outcome.mutations}
    assert [len(m.precursors) for m in outcome.mutations if m.kind is MutationKind.STRUCTURAL] == [1, 1]
    table = outcome.tables["requests"]
    assert table["rank"].to_pylist() == sorted(table["rank"].to_pylist())
    rows = table.group_by(["rank", "role", "category", "sample", "kind"]).aggregate([("request_id", "count")])
    counts = {
        (row["category"], row["sample"]): (row["rank"], row["role"], row["request_id_count"])
        for row in rows.to_pylist()
    }
    slow = slowed(3000).graph.key
    assert counts == {
        (keys["more"], "problem"): (ranks[keys["more"]], "mutation", 60),
        (keys["less"], "problem"): (ranks[keys["less"]], "mutation", 50),
        (keys["lost"], "reference"): (min(ranks[keys["more"]], ranks[keys["less"]]), "precursor", 300),
        (keys["lost"], "problem"): (min(ranks[keys["more"]], ranks[keys["less"]]), "precursor", 100),
        (slow, "reference"): (ranks[slow], "mutation", 40),
        (slow, "problem"): (ranks[slow], "mutation", 40),
    }
    assert set(table["kind"].to_pylist()) == {"records"}
    expected = {(c.graph.key, name) for c in (lost, more, less) for name in c.request_id.to_pylist()}
    listed = set(zip(table["category"].to_pylist(), table["request_id"].to_pylist(), strict=True))
    assert expected <= listed
    quiet = run(population(constant_chain(CALM, 40, 40, 1000, 1000))).tables["requests"]
    assert quiet.num_rows == 0
    assert quiet.schema.equals(table.schema)


def test_difference_marks_what_has_no_partner():
    found = run(population(*moved()))
    m = found.mutations[0]
    assert m.difference is not None
    view = found.ranked.graphs[m.category]
    assert [view.nodes[i].component for i in m.difference.only_mutation] == ["retry"]
    assert m.difference.only_precursor == ()


def test_graph_carries_mean_latencies():
    found = run(population(slowed()))
    view = found.ranked.graphs[found.mutations[0].category]
    edge = next(e for e in view.edges if (e.src, e.dst) == (1, 2))
    row = next(e for e in found.mutations[0].edges if (e.src, e.dst) == (1, 2))
    assert edge.mean0_us == pytest.approx(row.mean0_us)
    assert edge.mean1_us == pytest.approx(row.mean1_us)
