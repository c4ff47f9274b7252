"""What sites did, request by request and in plain Python: slow and obvious.

Everything is text: a site is (caller, operation, kind), a path the sites from the root down, a pattern the
sorted children. `expected_rows` adds requests up to what a profile's tables should hold, `profile_rows`
reads a profile in the same words.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracles.critical_path import walk

from analyze.population import Category, Population
from analyze.profile.names import Names
from analyze.profile.profile import CALLS, OVERLAP, OWN_TIME, SCHEMAS, STRETCH, Profile, Slot
from schemas.events import EventKind
from stitch.graph.placed import END, START

Operation = tuple[str, str, str]
SiteText = tuple[Operation | None, Operation, str]
PatternText = tuple[tuple[Operation, int, bool], ...]
Rows = dict[tuple[Any, ...], list[float]]

MOST_DEPTH = 32


@dataclass
class Unit:
    """A call, or the step between two records, in one request."""

    site: SiteText
    path: tuple[SiteText, ...]
    pattern: PatternText
    own_ns: int
    duration_ns: int
    critical_ns: int = 0
    on_path: bool = False
    overlap: float | None = None
    stretch: float = 1.0
    above: int = -1


@dataclass
class Request:
    """One request at its sites."""

    root: str
    sample: int
    start_ns: int
    weight: float
    response_ns: int
    failed: bool
    units: list[Unit]
    patterned: list[tuple[SiteText, PatternText]]
    """(site, call pattern) of every call, or of every trace point."""
    failing: list[tuple[SiteText, str]] = field(default_factory=list)
    """(site, error) of every failing node, by position."""
    entering: set[tuple[SiteText, PatternText]] = field(default_factory=set)
    """Trace points, with their pattern, right after which something occurs for the first time."""
    is_spans: bool = True


def requests(population: Population) -> Iterator[Request]:
    """Every request of a population."""
    for category in population.categories:
        paths = walk(category)
        for row in range(category.n_requests):
            yield _request(population, category, row, paths[row])


def _request(population: Population, category: Category, row: int, path: set[int]) -> Request:
    graph = category.graph
    times = category.node_ns[:, row].tolist()
    of_position: dict[int, int] = {}
    entering: set[tuple[SiteText, PatternText]] = set()
    if graph.nesting is None:
        units, patterned, places = _steps(category, times)
        first = {places[at]: at for at in reversed(range(graph.n_nodes))}
        entering = {patterned[src] for src, dst in graph.edges.tolist() if first[places[dst]] == dst}
    else:
        units, places, of_position = _calls(category, row, times)
        patterned = [(unit.site, unit.pattern) for unit in units]
    for edge in path:
        src, dst = graph.edges[edge].tolist()
        if graph.nesting is None:
            unit = units[edge]
        else:
            # Time since something under a span happened is that span's, since its own start as well.
            at = of_position[int(graph.nesting.owner[src])]
            unit = units[at if graph.nodes[src].side == START else units[at].above]
        unit.critical_ns += times[dst] - times[src]
        unit.on_path = True
    fails = category.failures
    failing = [
        (places[position], population.errors[error])
        for at, position, error in zip(
            fails.row.tolist(), fails.position.tolist(), fails.error.tolist(), strict=True
        )
        if at == row
    ]
    status = population.statuses[category.status[row]] if population.statuses else "ok"
    return Request(
        root=graph.root,
        sample=int(category.sample[row]),
        start_ns=int(category.start_ns[row]),
        weight=float(category.weight[row]),
        response_ns=int(category.response_ns[row]),
        failed=status != "ok",
        units=units,
        patterned=patterned,
        failing=failing,
        entering=entering,
        is_spans=graph.nesting is not None,
    )


def _pattern(children: Sequence[tuple[Operation, bool]]) -> PatternText:
    pattern = []
    for (operation, awaited), count in Counter(children).items():
        rounded = 1
        while rounded < count:
            rounded *= 2
        pattern.append((operation, rounded, awaited))
    return tuple(sorted(pattern))


def _steps(
    category: Category, times: list[int]
) -> tuple[list[Unit], list[tuple[SiteText, PatternText]], dict[int, SiteText]]:
    graph = category.graph
    operations = [_operation(category, position, []) for position in range(graph.n_nodes)]
    points: list[SiteText] = [(None, operation, "POINT") for operation in operations]
    after: dict[int, list[tuple[Operation, bool]]] = defaultdict(list)
    units = []
    for src, dst in graph.edges.tolist():
        site = (operations[src], operations[dst], "STEP")
        latency = times[dst] - times[src]
        units.append(Unit(site, (points[0], site), (), latency, latency))
        after[src].append((operations[dst], True))
    patterned = [(points[position], _pattern(after[position])) for position in range(graph.n_nodes)]
    return units, patterned, dict(enumerate(points))


def _operation(category: Category, position: int, called: list[int]) -> Operation:
    graph = category.graph
    node = graph.nodes[position]
    component = f"{node.host}/{node.component}" if node.host else node.component
    point = node.point if node.label is None else f"{node.point}/{node.label}"
    if graph.nesting is None:
        return component, point, ""
    remote = {graph.nodes[child].component for child in called} - {node.component}
    kind = graph.nesting.kind[position]
    unknown = kind in (EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL)
    is_call = kind == EventKind.SPAN_CLIENT or (unknown and len(called) == 1 and position != 0)
    return component, point, "+".join(sorted(remote)) if is_call else ""


def _calls(
    category: Category, row: int, times: list[int]
) -> tuple[list[Unit], dict[int, SiteText], dict[int, int]]:
    graph, nesting = category.graph, category.graph.nesting
    assert nesting is not None
    begins = [position for position, node in enumerate(graph.nodes) if node.side != END]
    ends = {
        int(nesting.owner[position]): position
        for position, node in enumerate(graph.nodes)
        if node.side == END
    }
    below: dict[int, list[int]] = defaultdict(list)
    for position in begins:
        below[int(nesting.parent[position])].append(position)
    operations = {
        position: _operation(category, position, [child for child in below[position] if child in ends])
        for position in begins
    }
    left: dict[int, list[Operation]] = defaultdict(list)
    if category.left_behind:
        for parent, text in category.left_behind[0 if category.origin is None else category.origin[row]]:
            component, _, point = text.partition("/")
            left[parent].append((component, point, ""))
    units: list[Unit] = []
    at: dict[int, int] = {}
    depth: dict[int, int] = {}
    for position in begins:
        parent = int(nesting.parent[position])
        site = (None if parent < 0 else operations[parent], operations[position], "CALL")
        depth[position] = 0 if parent < 0 else depth[parent] + 1
        if parent < 0 or depth[position] > MOST_DEPTH:
            path: tuple[SiteText, ...] = (site,)
        elif operations[parent] == operations[position]:
            path = units[at[parent]].path
        else:
            path = (*units[at[parent]].path, site)
        children = [(operations[child], True) for child in below[position] if child in ends]
        children += [(operation, False) for operation in left[position]]
        start, end = times[position], times[ends.get(position, position)]
        spans = [(times[child], times[ends[child]]) for child in below[position] if child in ends]
        union = _covered(spans)
        unit = Unit(site, path, _pattern(children), max(end - start - union, 0), end - start)
        unit.above = -1 if parent < 0 else at[parent]
        if len(spans) > 1:
            unit.overlap = sum(b - a for a, b in spans) / union if union else 1.0
            unit.stretch = union / max(b - a for a, b in spans) if union else 1.0
        at[position] = len(units)
        units.append(unit)
    return units, {position: units[at[position]].site for position in begins}, at


def _covered(spans: list[tuple[int, int]]) -> int:
    """Time in which any of the spans runs, piece by piece between their ends."""
    cuts = sorted({time for span in spans for time in span})
    return sum(b - a for a, b in itertools.pairwise(cuts) if any(s <= a and b <= e for s, e in spans))


def bin_number(value: float) -> int:
    """Bin of a value: 1/32 of an octave."""
    return math.floor(math.log2(max(value, 1.0)) * 32)


def vote_pattern(patterns: Sequence[PatternText]) -> PatternText:
    """The pattern that most calls have; of equals the one of most children, then by its names."""
    counts = Counter(patterns)
    return min(
        counts, key=lambda pattern: (-counts[pattern], -sum(calls for _, calls, _ in pattern), pattern)
    )


def expected_rows(
    population: Population, slots: Sequence[Slot], threshold_ns: float = math.inf
) -> dict[str, Rows]:
    """Table -> key in words -> sums, as a profile of these slots should have them."""
    found: dict[str, Rows] = {name: {} for name in SCHEMAS}

    def add(table: str, key: tuple[Any, ...], *values: float) -> None:
        sums = found[table].setdefault(key, [0.0] * len(values))
        for place, value in enumerate(values):
            sums[place] += value

    for request in requests(population):
        slot = _slot(request, slots)
        if slot is not None:
            _count(request, slot, threshold_ns, add)
    return found


def _slot(request: Request, slots: Sequence[Slot]) -> int | None:
    for number, slot in enumerate(slots):
        if slot.sample == request.sample and slot.start_ns <= request.start_ns < slot.end_ns:
            return number
    return None


def _count(request: Request, slot: int, threshold_ns: float, add: Any) -> None:
    w, response = request.weight, request.response_ns
    add(
        "responses",
        (request.root, slot, bin_number(response)),
        *(1, w, w * w, w * response, w * response * response, w * request.failed, request.failed),
    )
    by_site: dict[SiteText, list[Unit]] = defaultdict(list)
    for unit in request.units:
        by_site[unit.site].append(unit)
        over = w * unit.critical_ns / response if response > max(threshold_ns, 0) else 0.0
        key = (request.root, unit.path, unit.pattern, slot)
        add("account", key, w * unit.on_path, w * unit.critical_ns, over)
    patterns: dict[SiteText, list[PatternText]] = defaultdict(list)
    for site, pattern in request.patterned:
        patterns[site].append(pattern)
    failing = Counter(site for site, _ in request.failing)
    for site in {**by_site, **patterns}:
        units, mine = by_site.get(site, []), patterns.get(site, [])
        n_calls = len(units) or len(mine)
        critical = sum(unit.critical_ns for unit in units)
        share = failing[site] / n_calls
        add(
            "visits",
            (site, slot),
            *(1, w, w * w, w * n_calls, w * critical, w * response, w * share, failing[site] > 0),
        )
        for pattern in set(mine):
            part = mine.count(pattern) / len(mine)
            below = sum(
                _inclusive(request.units, at)
                for at, unit in enumerate(request.units)
                if unit.site == site and unit.pattern == pattern
            )
            inclusive = below if request.is_spans else part * response
            enters = (site, pattern) in request.entering
            add(
                "patterns", (site, pattern, slot), 1, w * part, w * mine.count(pattern), w * inclusive, enters
            )
        if not units:
            continue
        pattern = vote_pattern([unit.pattern for unit in units])

        def vote(measure: int, value: float, site: SiteText = site, pattern: PatternText = pattern) -> None:
            add("votes", (measure, site, pattern, slot, bin_number(value)), 1, w, w * w)

        vote(OWN_TIME, sum(unit.own_ns for unit in units) / len(units))
        vote(CALLS, len(units) * 65536)
        overlaps = [unit.overlap for unit in units if unit.overlap is not None]
        if overlaps:
            vote(OVERLAP, sum(overlaps) / len(overlaps) * 65536)
            stretches = [unit.stretch for unit in units if unit.overlap is not None]
            vote(STRETCH, sum(stretches) / len(stretches) * 65536)
    if request.failing:
        # Of spans the last failing one is the innermost; of records the first is where it began.
        site, error = request.failing[-1 if request.is_spans else 0]
        add("origins", (request.root, site, error, slot), 1, w)


def _inclusive(units: list[Unit], at: int) -> int:
    """Critical time of a call and of everything below it."""
    return units[at].critical_ns + sum(
        _inclusive(units, below) for below, unit in enumerate(units) if unit.above == at
    )


def profile_rows(profile: Profile) -> dict[str, Rows]:
    """Table -> key in words -> sums of a profile. Raises ValueError where a key stands twice."""
    words = words_of(profile.names)
    found: dict[str, Rows] = {}
    for name, table in profile.tables().items():
        rows: Rows = {}
        keys = [field for field in SCHEMAS[name].names if field in (*words, "measure", "slot", "bin")]
        for row in table.to_pylist():
            key = tuple(words[field][row[field]] if field in words else row[field] for field in keys)
            if key in rows:
                raise ValueError(f"{name}: {key} stands twice")
            rows[key] = [row[field] for field in SCHEMAS[name].names if field not in keys]
        found[name] = rows
    return found


def words_of(names: Names) -> dict[str, list[Any]]:
    """Column -> what each of its numbers says."""
    operations: list[Operation] = [(*one,) for one in names.operations]
    sites: list[SiteText] = [
        (
            None if site.caller < 0 else operations[site.caller],
            operations[site.operation],
            site.kind.name,
        )
        for site in names.sites
    ]
    paths: list[tuple[SiteText, ...]] = []
    for path in names.paths:
        paths.append((*(() if path.above < 0 else paths[path.above]), sites[path.site]))
    patterns = [
        tuple(sorted((tuple(names.operations[c.operation]), c.calls, c.awaited) for c in pattern))
        for pattern in names.patterns
    ]
    return {
        "site": sites,
        "path": paths,
        "pattern": patterns,
        "root": list(names.roots),
        "error": list(names.errors),
    }


def differences(found: dict[str, Rows], expected: dict[str, Rows]) -> list[str]:
    """What two sets of rows do not agree on, in words."""
    told = []
    for name in SCHEMAS:
        for key in {**expected[name], **found[name]}:
            one, other = found[name].get(key), expected[name].get(key)
            if one is None or other is None:
                # A row of zeros says no more than none.
                if any(one or other or ()):
                    told.append(f"{name} {key}: {one}, expected {other}")
            elif not all(
                math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(one, other, strict=True)
            ):
                told.append(f"{name} {key}: {one}, expected {other}")
    return told


Value = dict[tuple[str, Any, Any], tuple[float, float]]
"""(root, place, pattern) -> (calls, value)."""


@dataclass
class PlainAccount:
    """An account by plain sums; see `analyze.profile.breakdown`."""

    before: float
    after: float
    mix: dict[str, float]
    parts: dict[tuple[str, Any], tuple[float, float, float]]
    """(root, place) -> calls, structure, slower."""

    @property
    def total(self) -> float:
        """All parts."""
        return sum(self.mix.values()) + sum(sum(part) for part in self.parts.values())


def measured(found: Sequence[Request], measure: str, threshold_ns: float = math.inf) -> Value:
    """Calls and values of a measure: `mean`, `tail` or `errors`, summed over requests."""
    sums: Value = defaultdict(lambda: (0.0, 0.0))

    def add(root: str, place: Any, pattern: Any, calls: float, value: float) -> None:
        key = (root, place, pattern)
        sums[key] = (sums[key][0] + calls, sums[key][1] + value)

    for request in found:
        w, response = request.weight, request.response_ns
        if measure == "errors":
            if request.failing:
                site = request.failing[-1 if request.is_spans else 0][0]
                add(request.root, site, None, 0.0, w)
            continue
        for unit in request.units:
            value = float(unit.critical_ns)
            if measure == "tail":
                value = value / response if response > max(threshold_ns, 0) else 0.0
            add(request.root, unit.path, unit.pattern, w * unit.on_path, w * value)
    return sums


def plain_account(
    before: Sequence[Request], after: Sequence[Request], measure: str, threshold_ns: float = math.inf
) -> PlainAccount:
    """The account of what changed from some requests to others, root by root, place by place."""
    periods = (before, after)
    weight: list[dict[str, float]] = [defaultdict(float), defaultdict(float)]
    for period, found in enumerate(periods):
        for request in found:
            weight[period][request.root] += request.weight
    whole = [sum(mine.values()) for mine in weight]
    sums = [measured(found, measure, threshold_ns) for found in periods]
    roots = sorted({*weight[0], *weight[1]})

    def mean(period: int, root: str) -> float:
        if not weight[period][root]:
            return mean(1 - period, root)
        total = sum(value for (at, _, _), (_, value) in sums[period].items() if at == root)
        return total / weight[period][root]

    share = {root: [weight[t][root] / whole[t] for t in (0, 1)] for root in roots}
    means = {root: [mean(t, root) for t in (0, 1)] for root in roots}
    overall = [sum(share[root][t] * means[root][t] for root in roots) for t in (0, 1)]
    middle = sum(overall) / 2
    account = PlainAccount(overall[0], overall[1], {}, {})
    for root in roots:
        account.mix[root] = (share[root][1] - share[root][0]) * (sum(means[root]) / 2 - middle)
        if not (weight[0][root] and weight[1][root]):
            continue
        for place in sorted({p for found in sums for at, p, _ in found if at == root}, key=repr):
            mine = [{g: v for (at, p, g), v in found.items() if (at, p) == (root, place)} for found in sums]
            if measure == "errors":  # every request is a call that may fail
                mine = [
                    {None: (weight[t][root], sum(value for _, value in mine[t].values()))} for t in (0, 1)
                ]
            scale = sum(share[root]) / 2
            parts = _plain_parts(mine, [weight[t][root] for t in (0, 1)])
            account.parts[root, place] = tuple(scale * part for part in parts)  # type: ignore[assignment]
    return account


def _plain_parts(mine: list[dict[Any, tuple[float, float]]], n: list[float]) -> tuple[float, float, float]:
    """(more calls, structure, slower calls) of one place, a request of its root type."""
    calls = [sum(count for count, _ in patterns.values()) for patterns in mine]
    value = [sum(total for _, total in patterns.values()) for patterns in mine]
    kappa = [calls[t] / n[t] for t in (0, 1)]
    time = _both([value[t] / calls[t] if calls[t] else None for t in (0, 1)])
    structure = slower = 0.0
    for pattern in {**mine[0], **mine[1]}:
        here = [mine[t].get(pattern, (0.0, 0.0)) for t in (0, 1)]
        q = _both([here[t][0] / calls[t] if calls[t] else None for t in (0, 1)])
        t_g = _both([here[t][1] / here[t][0] if here[t][0] else None for t in (0, 1)])
        structure += (q[1] - q[0]) * (sum(t_g) / 2 - sum(time) / 2)
        slower += sum(q) / 2 * (t_g[1] - t_g[0])
    calls_a_request = sum(kappa) / 2
    return (kappa[1] - kappa[0]) * sum(time) / 2, calls_a_request * structure, calls_a_request * slower


def _both(pair: list[float | None]) -> list[float]:
    """A side that has none takes the other's."""
    first, second = pair
    given = [value for value in pair if value is not None]
    if not given:
        return [0.0, 0.0]
    return [given[0] if first is None else first, given[-1] if second is None else second]
