"""What the refinement makes of span requests: order, asynchrony, occurrences, deferral, zoom, clamping."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from oracles.refined import T0, Call, call, edge_labels, only, population, request_events, stored, table

from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.population import Category, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind


def repeated(n: int, make: object) -> list[Call]:
    rng = np.random.default_rng(0)
    return [make(rng) for _ in range(n)]  # type: ignore[operator]


def sequential(rng: np.random.Generator) -> Call:
    first, second = 100 + rng.integers(50), 300 + rng.integers(50)
    return call("web/get", 0, 1000, call("web/auth", 10, first), call("web/load", second, 900))


def parallel(rng: np.random.Generator) -> Call:
    return call(
        "web/get",
        0,
        1000,
        call("web/auth", 10 + rng.integers(400), 500 + rng.integers(400)),
        call("web/load", 10 + rng.integers(400), 500 + rng.integers(400)),
    )


def test_children_one_after_the_other_become_a_chain() -> None:
    category = only(population(repeated(25, sequential), repeated(25, sequential)))
    assert edge_labels(category) == {
        ("web/get>", "web/auth>"),
        ("web/auth>", "web/auth<"),
        ("web/auth<", "web/load>"),
        ("web/load>", "web/load<"),
        ("web/load<", "web/get<"),
    }
    assert np.bincount(category.sample).tolist() == [25, 25]


def test_overlapping_children_stay_parallel() -> None:
    category = only(population(repeated(40, parallel)))
    assert ("web/auth<", "web/load>") not in edge_labels(category)
    assert {("web/get>", "web/auth>"), ("web/get>", "web/load>")} <= edge_labels(category)


def test_an_overlap_of_half_a_short_sibling_is_no_order() -> None:
    """5 µs of overlap are within the slack of 10 µs, and yet most of two spans of 8 µs."""

    def shares(overlap: float, duration: float) -> bool:
        second = 10 + duration - overlap
        request = call(
            "web/get", 0, 100, call("web/a", 10, 10 + duration), call("web/b", second, second + duration)
        )
        found = only(population([request] * 25, settings=RefineSettings(host_policy="none")))
        return ("web/a<", "web/b>") not in edge_labels(found)

    assert shares(overlap=5, duration=8)
    assert not shares(overlap=4, duration=8)
    assert not shares(overlap=5, duration=30)
    assert not shares(overlap=10, duration=30)
    assert shares(overlap=11, duration=30)


def test_the_shorter_of_two_siblings_bounds_the_slack() -> None:
    for long_first in (True, False):
        long, short = (10.0, 60.0), (57.0, 61.0)
        if not long_first:  # the same backwards
            long, short = (40.0, 90.0), (39.0, 43.0)
        request = call("web/get", 0, 100, call("web/long", *long), call("web/short", *short))
        found = edge_labels(only(population([request] * 25)))
        assert {("web/get>", "web/long>"), ("web/get>", "web/short>")} <= found


def test_order_can_be_switched_off() -> None:
    settings = RefineSettings(order_siblings=False)
    category = only(population(repeated(25, sequential), settings=settings))
    assert {("web/get>", "web/load>"), ("web/auth<", "web/get<")} <= edge_labels(category)


def test_a_rare_exception_does_not_break_the_consensus_and_is_clamped() -> None:
    late = call("web/get", 0, 1000, call("web/auth", 10, 700), call("web/load", 300, 900))
    category = only(population([*repeated(30, sequential), late]))
    edges = [tuple(category.graph.labels[at] for at in edge) for edge in category.graph.edges.tolist()]
    latency = edge_latency_ns(category)
    assert (latency >= 0).all()
    assert category.node_ns[:, 30].tolist() == [0, 10_000, 700_000, 700_000, 900_000, 1_000_000]
    assert category.skewed_edges[edges.index(("web/auth<", "web/load>"))]
    assert not category.skewed_edges[edges.index(("web/get>", "web/auth>"))]


def test_programs_of_one_operation_are_told_apart_by_their_calls() -> None:
    """`a` runs before `b` on one page and after it on another: each page keeps its order."""

    def page(*order: str) -> Call:
        calls = [call(f"web/{name}", 10 + 100 * at, 90 + 100 * at) for at, name in enumerate(order)]
        return call("web/get", 0, 1000, *calls)

    found = population([page("a", "b", "c")] * 25 + [page("b", "a", "d")] * 25)
    by_size = [edge_labels(category) for category in found.categories]
    assert len(by_size) == 2
    first = next(edges for edges in by_size if ("web/c>", "web/c<") in edges)
    other = next(edges for edges in by_size if ("web/d>", "web/d<") in edges)
    assert ("web/a<", "web/b>") in first
    assert ("web/b<", "web/a>") in other


def test_rare_families_take_the_order_of_their_operation() -> None:
    def page(extra: str, order: tuple[str, str]) -> Call:
        calls = [call(f"web/{name}", 10 + 200 * at, 150 + 200 * at) for at, name in enumerate(order)]
        return call("web/get", 0, 1000, *calls, call(f"web/{extra}", 600, 900))

    often = [page("x", ("a", "b"))] * 25
    overlapping = call(
        "web/get", 0, 1000, call("web/a", 10, 300), call("web/b", 150, 400), call("web/y", 600, 900)
    )
    edges = [edge_labels(c) for c in population([*often, overlapping]).categories]
    rare = next(found for found in edges if ("web/y>", "web/y<") in found)
    assert ("web/a<", "web/b>") in rare


def test_without_any_consensus_each_request_decides() -> None:
    chain = call("web/get", 0, 1000, call("web/a", 10, 100), call("web/b", 300, 900))
    overlap = call("web/get", 0, 1000, call("web/a", 10, 500), call("web/b", 300, 900))
    found = population([chain, overlap])
    assert len(found.categories) == 2
    assert sum(("web/a<", "web/b>") in edge_labels(category) for category in found.categories) == 1


def test_occurrences_go_by_start_whichever_branch_they_are() -> None:
    """Two calls of one operation, one of them with a cache miss below: hit-miss and miss-hit differ."""

    def reads(*missing: bool) -> Call:
        return call(
            "web/get",
            0,
            1000,
            *(
                call("web/read", 10 + 300 * at, 200 + 300 * at, *miss_below(at) if missed else ())
                for at, missed in enumerate(missing)
            ),
        )

    def miss_below(at: int) -> tuple[Call, ...]:
        return (call("disk/read", 50 + 300 * at, 150 + 300 * at),)

    found = population([reads(True, False)] * 20 + [reads(False, True)] * 20)
    assert sorted(len(category.response_ns) for category in found.categories) == [20, 20]
    assert len({category.stored for category in found.categories}) == 1


def test_identical_branches_are_ordered_by_start_in_every_request() -> None:
    def fan_out(rng: np.random.Generator) -> Call:
        starts = 10 + rng.permutation(3) * 30
        return call("web/get", 0, 1000, *(call("web/read", s, s + 500 + rng.integers(100)) for s in starts))

    category = only(population(repeated(30, fan_out)))
    starts = [at for at, label in enumerate(category.graph.labels) if label == "web/read>"]
    ends = [at for at, label in enumerate(category.graph.labels) if label == "web/read<"]
    mates = [next(d for s, d in category.graph.edges.tolist() if s == start) for start in starts]
    assert sorted(mates) == ends
    assert (np.diff(category.node_ns[starts], axis=0) > 0).all()
    assert (category.node_ns[mates] - category.node_ns[starts] >= 500_000).all()


def test_children_that_outlive_their_parent_are_deferred() -> None:
    def fire_and_forget(late: bool) -> Call:
        end = 1500 if late else 800
        return call("web/get", 0, 1000, call("web/load", 10, 500), call("web/log", 600, end))

    mostly_late = [fire_and_forget(at % 4 != 0) for at in range(20)]
    category = only(population(mostly_late))
    assert "web/log>" not in category.graph.labels
    assert set(category.response_ns.tolist()) == {1_000_000}
    kept = only(population(mostly_late, settings=RefineSettings(keep_deferred=True)))
    assert ("web/get>", "web/log>") in edge_labels(kept)
    assert not any(src == "web/log<" for src, _ in edge_labels(kept))
    assert not critical_path(kept)[:, kept.graph.edges[:, 1] == kept.graph.labels.index("web/log<")].any()


def test_a_synchronous_child_that_outlives_its_parent_once_is_clipped() -> None:
    def loads(end: float) -> Call:
        return call("web/get", 0, 1000, call("web/load", 10, end, call("db/query", 20, end)))

    category = only(population([loads(900)] * 30 + [loads(1200)]))
    assert category.node_ns[:, 30].tolist() == [0, 10_000, 20_000, 1_000_000, 1_000_000, 1_000_000]
    assert category.response_ns[30] == 1_000_000


def test_categories_that_differ_in_deferred_work_only_are_merged() -> None:
    plain = call("web/get", 0, 1000, call("web/load", 10, 500))
    publish = call(
        "queue/send",
        600,
        700,
        call("mail/send", 5000, 6000, kind=EventKind.SPAN_CONSUMER),
        kind=EventKind.SPAN_PRODUCER,
    )
    noisy = call("web/get", 0, 1000, call("web/load", 10, 500), publish)
    found = population([noisy] * 25, [noisy] * 25, settings=RefineSettings(messages=False))
    assert "mail/send>" not in only(found).graph.labels
    assert "queue/send>" in only(found).graph.labels
    assert only(population([plain] * 25)).graph.key != only(found).graph.key


def test_zoomed_out_graphs_keep_calls_between_components() -> None:
    inner = call("db/query", 30, 80, call("db/parse", 35, 40), call("db/scan", 45, 75))
    request = call("web/get", 0, 100, call("web/render", 10, 95, call("web/fetch", 20, 90, inner)))
    category = only(population([request] * 5, settings=RefineSettings(level="L3")))
    assert category.graph.labels == (
        "web/get>",
        "web/fetch>",
        "db/query>",
        "db/query<",
        "web/fetch<",
        "web/get<",
    )
    assert edge_latency_ns(category)[0].tolist() == [20_000, 10_000, 50_000, 10_000, 10_000]


def test_a_change_of_order_between_the_periods_is_noted() -> None:
    found = population(repeated(40, sequential), repeated(40, parallel))
    assert any("web/auth" in note and "web/load" in note for note in found.notes)
    assert not population(repeated(40, sequential), repeated(40, sequential)).notes


def test_too_many_siblings_stay_unordered_and_that_is_said() -> None:
    calls = [call(f"web/c{at}", 10 * at + 1, 10 * at + 5) for at in range(5)]
    found = population([call("web/get", 0, 100, *calls)] * 25, settings=RefineSettings(max_siblings=4))
    assert "4 children" in found.notes[0]
    assert ("web/get>", "web/c4>") in edge_labels(only(found))


def test_a_structure_of_several_hosts_counts_once_among_the_unordered() -> None:
    calls = [call(f"web/c{at}", 10 * at + 1, 10 * at + 5) for at in range(5)]
    requests = [call("web/get", 0, 100, *calls, host=host) for host in ("h1", "h2", "h3")]
    found = population(requests, settings=RefineSettings(max_siblings=4, host_policy="full"))
    assert len(found.categories) == 3
    assert found.notes[0].startswith("1 structures have spans with over 4 children")


def test_weights_count_in_the_consensus() -> None:
    """Thirty sampled requests in order stand for 1,200, ten unsampled ones overlap: 99 %, unweighted 75 %."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(40):
        request = (
            sequential(rng)
            if number < 30
            else call("web/get", 0, 1000, call("web/auth", 10, 600), call("web/load", 300, 900))
        )
        weight = 1.0 if number >= 30 else 1 / 40
        events = request_events(request, f"{number:032x}", T0 + number)
        rows += [row | {"sample_rate": weight} for row in events]
    category = only(refine(*stored([table(rows)]), RefineSettings()))
    assert ("web/auth<", "web/load>") in edge_labels(category)


def test_a_child_awaited_in_one_period_only_is_noted() -> None:
    def logs(end: float) -> Call:
        return call("web/get", 0, 1000, call("web/load", 10, 500), call("web/log", 600, end))

    found = population([logs(900)] * 10, [logs(2000)] * 30)
    assert found.notes == (
        "web/log outlives its parent web/get in 0% of the reference and 100% of the problem calls: "
        "taken as asynchronous in both.",
        "Asynchronous, as they outlive their parent, which shows the time meanwhile: web/log below web/get "
        "(in 75% of its calls).",
    )
    assert "web/log>" not in only(found).graph.labels


def test_one_request_makes_no_child_asynchronous() -> None:
    """A large trace in which all calls of a kind outlive their parent once is one trace: they are clipped."""
    spread = [call("web/load", 10 + at, 1500) for at in range(30)]
    category = only(population([call("web/get", 0, 1000, *spread)]))
    assert category.graph.labels.count("web/load>") == 30
    assert set(category.node_ns[:, 0].tolist()) == {0, 1_000_000, *((10 + at) * 1000 for at in range(30))}
    assert category.response_ns.tolist() == [1_000_000]


def test_few_requests_make_a_child_asynchronous_if_they_agree() -> None:
    def loads(end: float) -> Call:
        return call("web/get", 0, 1000, call("web/load", 10, end))

    assert "web/load>" in only(population([loads(1500)] * 4)).graph.labels
    assert "web/load>" not in only(population([loads(1500)] * 5)).graph.labels
    assert "web/load>" in only(population([loads(1500)] * 18 + [loads(900)])).graph.labels
    assert "web/load>" not in only(population([loads(1500)] * 10 + [loads(900)] * 10)).graph.labels
    assert "web/load>" in only(population([loads(1500)] * 9 + [loads(900)] * 11)).graph.labels


def pipeline(rng: np.random.Generator, connected: float = 0.0, hang: float = 0.0) -> Call:
    """An HDFS-like write: the handler outlives the set-up of the pipeline, the connect below it does not."""
    at = float(rng.integers(20))
    end = 300 + hang + at + connected
    connect = call(
        "node/connect", 120 + at, 200 + hang + at + connected, call("disk/open", 130 + at, 140 + at)
    )
    handler = call("node/write", 50 + at, 5_000, connect, call("disk/flush", 4_000, 4_500))
    setup = call("client/setup", 10, end - connected, handler)
    return call("client/put", 0, 6_000, setup, call("client/send", end + 10, 5_800))


def test_awaited_work_below_a_deferred_child_keeps_its_place() -> None:
    found = population(
        repeated(30, pipeline), [pipeline(np.random.default_rng(n), hang=900) for n in range(30)]
    )
    category = only(found)
    assert edge_labels(category) == {
        ("client/put>", "client/setup>"),
        ("client/setup>", "node/write"),  # the handler's start: a point, its end is deferred
        ("node/write", "node/connect>"),
        ("node/connect>", "disk/open>"),
        ("disk/open>", "disk/open<"),
        ("disk/open<", "node/connect<"),
        ("node/connect<", "client/setup<"),
        ("client/setup<", "client/send>"),
        ("client/send>", "client/send<"),
        ("client/send<", "client/put<"),
    }
    latency, path = edge_latency_ns(category), critical_path(category)
    assert ((latency * path).sum(axis=1) == category.response_ns).all()
    labels = category.graph.labels
    hop = category.graph.edges.tolist().index([labels.index("disk/open<"), labels.index("node/connect<")])
    assert latency[:30, hop].tolist() == [60_000] * 30
    assert latency[30:, hop].tolist() == [960_000] * 30  # the hop that hangs shows
    assert found.notes == (
        "Asynchronous, as they outlive their parent, which shows the time meanwhile: node/write below "
        "client/setup (in 100% of its calls; but node/connect in it is over before the parent goes on, and "
        "stays).",
    )


def test_a_step_of_the_parent_at_the_very_start_of_the_child_is_its_next() -> None:
    """`load` starts with `log`: what `log` does later, nobody waits for."""
    open_ = call("log/open", 20, 500)
    request = call("web/get", 0, 1000, call("web/log", 10, 2000, open_), call("web/load", 10, 400))
    assert "log/open>" not in only(population([request] * 40)).graph.labels


def test_work_that_goes_on_past_the_parents_next_step_is_deferred_with_its_child() -> None:
    """`connect` is over before the set-up ends in 90 % of the requests, 95 % are asked for."""
    requests = [*repeated(27, pipeline), *repeated(3, lambda rng: pipeline(rng, connected=200))]
    found = population(requests)
    assert "node/connect>" not in only(found).graph.labels
    assert "disk/open>" in only(found).graph.labels
    assert "disk/open in it is over" in found.notes[0]
    almost = [*repeated(29, pipeline), *repeated(1, lambda rng: pipeline(rng, connected=200))]
    assert "node/connect>" in only(population(almost)).graph.labels


def test_the_next_step_of_the_parent_is_its_next_call() -> None:
    """`connect` ends before the set-up does, but after its next call has begun: nobody waited for it."""
    handler = call("node/write", 50, 5_000, call("node/connect", 120, 200))
    setup = call("client/setup", 10, 300, handler, call("client/ask", 150, 250))
    category = only(population([call("client/put", 0, 6_000, setup)] * 25))
    assert "client/ask>" in category.graph.labels
    assert "node/connect>" not in category.graph.labels


def test_where_deferred_work_is_kept_awaited_work_still_moves_up() -> None:
    category = only(population(repeated(30, pipeline), settings=RefineSettings(keep_deferred=True)))
    assert {
        ("client/setup>", "node/connect>"),
        ("node/connect<", "client/setup<"),
        ("client/setup>", "node/write>"),
        ("disk/flush<", "node/write<"),
    } <= edge_labels(category)
    latency, path = edge_latency_ns(category), critical_path(category)
    assert ((latency * path).sum(axis=1) == category.response_ns).all()


def test_a_few_late_calls_of_one_period_are_no_word_about_it() -> None:
    plain, in_time = call("web/get", 0, 1000), call("web/get", 0, 1000, call("web/log", 10, 900))
    late = call("web/get", 0, 1000, call("web/log", 10, 2_000))
    for n, told in ((4, 0), (5, 1)):
        found = population([plain] * 30 + [late] * n, [in_time] * 25)
        assert sum("web/log outlives its parent" in note for note in found.notes) == told


def test_what_is_made_up_for_lost_spans_outlives_nobody() -> None:
    whole = call("web/get", 0, 1000, call("web/load", 10, 500))
    batches = []
    for period in range(2):
        rows = []
        for number in range(30):
            mine = request_events(whole, f"{period:08x}{number:024x}", T0 + period * 10**13 + number * 10**9)
            if period == 0:
                mine[1] |= {"parents": ["f" * 16], "end_ns": mine[0]["end_ns"] + 10**9}
            rows += mine
        batches.append(table(rows))
    found = refine(*stored(batches), RefineSettings())
    left = {one.operation for category in found.categories for each in category.left_behind for one in each}
    assert left == {"?/missing"}
    assert not found.notes


def test_spans_without_the_name_of_a_service_are_told_of_like_others() -> None:
    request = call("?/get", 0, 1000, call("?/log", 10, 2_000))
    (note,) = population([request] * 25, [request] * 25).notes
    assert "?/log below ?/get" in note


def test_operations_that_are_written_alike_are_kept_apart() -> None:
    """25 requests of `a/b` + `c` outlive their parent, 25 of `a` + `b/c` do not: two operations."""
    rows = []
    for number in range(50):
        late = number % 2 == 0
        request = call("web/get", 0, 1000, call("x/y", 10, 1500 if late else 900))
        for row in request_events(request, f"{number:032x}", T0 + number * 10**9):
            if row["component"] == "x":
                row |= {"component": "a/b", "point": "c"} if late else {"component": "a", "point": "b/c"}
            rows.append(row)
    found = refine(*stored([table(rows)]), RefineSettings(async_share=0.9))
    assert sorted(len(category.graph.nodes) for category in found.categories) == [2, 4]


def overlapping(name: str = "web/get", *more: Call) -> Call:
    return call(name, 0, 1000, call("web/auth", 10, 600), call("web/load", 300, 900), *more)


def in_order(name: str = "web/get", *more: Call) -> Call:
    return call(name, 0, 1000, call("web/auth", 10, 200), call("web/load", 300, 900), *more)


CHAINED = ("web/auth<", "web/load>")


def test_twenty_requests_of_which_nineteen_agree_are_a_consensus() -> None:
    """Both bounds are inclusive: 20 requests, 95 %; whichever of the two has the smaller key."""
    beside = [overlapping("web/put")] * 30  # what the components alone would say: parallel
    for name in ("web/auth", "web/zero", "web/a", "web/b", "web/c", "web/d"):
        first, second = call(name, 10, 200), call("web/load", 300, 900)
        right = call("web/get", 0, 1000, first, second)
        wrong = call("web/get", 0, 1000, call(name, 10, 600), second)
        chained = (f"{name}<", "web/load>")

        def of_get(requests: list[Call]) -> Category:
            found = population([*requests, *beside]).categories
            return next(category for category in found if category.graph.root == "web/get")

        assert chained in edge_labels(of_get([right] * 19 + [wrong]))
        assert chained not in edge_labels(of_get([right] * 18 + [wrong] * 2))
    assert len(population([in_order()] * 18 + [overlapping()]).categories) == 2  # 19: each by itself


def test_rare_operations_pool_by_component_from_twenty_requests_on() -> None:
    """Two operations of ten requests; 19 of the 20 in order, so even the one that overlaps follows."""
    pooled = [*[in_order("web/get")] * 10, *[in_order("web/put")] * 9, overlapping("web/put")]
    assert all(CHAINED in edge_labels(category) for category in population(pooled).categories)
    doubtful = [*pooled[:-2], overlapping("web/put"), overlapping("web/put")]
    assert all(
        CHAINED not in edge_labels(c) for c in population(doubtful).categories if "put" in c.graph.root
    )
    few = population([*pooled[1:]])  # 19
    assert sum(CHAINED in edge_labels(category) for category in few.categories) == 2
    assert len(few.categories) == 3


def test_five_requests_that_agree_outvote_their_operation() -> None:
    extra = call("web/mail", 910, 990)
    often = [overlapping()] * 25
    found = population([*often, *[in_order("web/get", extra)] * 5])
    of_few = next(c for c in found.categories if "web/mail>" in c.graph.labels)
    assert CHAINED in edge_labels(of_few)
    found = population([*often, *[in_order("web/get", extra)] * 4])
    of_few = next(c for c in found.categories if "web/mail>" in c.graph.labels)
    assert CHAINED not in edge_labels(of_few)


def test_branches_that_became_alike_are_ordered_by_start_with_all_below_them() -> None:
    """Two reads, one of which sends a message nobody waits for: without that they are interchangeable."""

    def fan_out(rng: np.random.Generator) -> Call:
        first, second = (10 + rng.permutation(2) * 100).tolist()

        def read(start: float, *more: Call) -> Call:
            return call("web/read", start, start + 500, call("disk/read", start + 5, start + 400), *more)

        sent = call("queue/send", 700, 2_000, kind=EventKind.SPAN_CONSUMER)
        return call("web/get", 0, 1000, read(first, sent), read(second))

    category = only(population(repeated(40, fan_out)))
    labels, edges = category.graph.labels, category.graph.edges.tolist()
    reads = [at for at, label in enumerate(labels) if label == "web/read>"]
    below = [next(dst for src, dst in edges if src == read) for read in reads]
    assert [labels[at] for at in below] == ["disk/read>"] * 2
    assert category.node_ns[reads[0]].tolist() == [10_000] * 40
    assert category.node_ns[reads[1]].tolist() == [110_000] * 40
    assert (category.node_ns[below] - category.node_ns[reads] == 5_000).all()


def test_notes_on_moved_order_compare_the_first_sample_with_each_other_one() -> None:
    def batch(number: int, requests: list[Call]) -> pa.Table:
        rows = []
        for at, request in enumerate(requests):
            rows += request_events(request, f"{number:08x}{at:024x}", T0 + (number * 3_600 + at) * 10**9)
        return table(rows)

    parts = [repeated(40, sequential), repeated(40, sequential), repeated(40, parallel)]
    batches = [batch(number, part) for number, part in enumerate(parts)]
    samples = tuple(Sample(name) for name in ("usual", "morning", "evening"))
    (note,) = refine(*stored(batches), RefineSettings(), samples).notes
    assert note.startswith("web/auth is over before web/load starts in 100% of the usual and")
    assert note.endswith("% of the evening requests that have both; one order is laid over all.")
    for n in (1, 2):
        assert refine(*stored(batches[:n]), RefineSettings(), samples[:n]).notes == ()
        # What comes after those compared is history.
        assert refine(*stored(batches), RefineSettings(), samples, n_compared=n).notes == ()


def test_notes_on_asynchrony_name_every_sample() -> None:
    def logs(end: float) -> Call:
        return call("web/get", 0, 1000, call("web/load", 10, 500), call("web/log", 600, end))

    batches = []
    for number, end in enumerate((900, 2_000, 900)):
        rows = []
        for at in range(20):
            rows += request_events(logs(end), f"{number:08x}{at:024x}", T0 + (number * 3_600 + at) * 10**9)
        batches.append(table(rows))
    samples = tuple(Sample(name) for name in ("a", "b", "c"))
    assert refine(*stored(batches), RefineSettings(), samples, n_compared=1).notes == ()
    (note,) = refine(*stored(batches[1:]), RefineSettings(), samples[1:], n_compared=1).notes
    assert note.endswith("web/log below web/get (in 100% of its calls).")  # of b's
    assert refine(*stored(batches), RefineSettings(), samples).notes == (
        "web/log outlives its parent web/get in 0% of the a, 100% of the b and 0% of the c calls: taken as "
        "awaited in all.",
    )
    (note,) = refine(*stored(batches[1:2]), RefineSettings(), samples[:1]).notes
    assert note.startswith("Asynchronous")
