"""What a result names: the components that a reader of one row or one finding is sent to.

The rule for the recordings. A finding is *at* a service where it names it, or where the changed site is a
call and the service is what it calls; it *names* a service that is

* the component of its site (its own time, its call patterns, its errors, or the call as it sees it), or
* its suspect (what to look at first: the callee after which calls are cut short, whose calls are waited for).

Who calls a site is not at it: that a page waits for a slow service does not make the page right. The rank of
the right finding is that of the first *at* the labelled service; the rank of the first that *names* it, which
is stricter, stands beside it.

A row of paper mode is at the components of both ends of its reddest edge (response time), or of the nodes
that it has and its best precursor has not, and the other way round (structure; without a precursor: all of
its nodes). It names the component where that is one, of an edge between two the one that is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from analyze.population import Graph, GraphNode, Population
from analyze.report.gate import FailOn, Floor, Outcome, gate
from schemas.report.accounts import AccountSection, ReasonKind, VerdictSection
from schemas.report.findings import Finding, FindingsSection, Site
from schemas.report.parts import Section
from schemas.report.report import Report
from schemas.report.suspects import Suspect, SuspectsSection
from stitch.graph.placed import END, START

S = TypeVar("S", bound=Section)

Callees = Mapping[tuple[str, str], frozenset[str]]
"""(component, operation) -> components that the spans of this operation call."""


ARROW = " -> "
CRASHED, CRASH_CODE = "crashed", 2
"""Outcome and exit code of a comparison that broke."""


@dataclass(frozen=True, slots=True)
class Named:
    """One result, as far as it is judged."""

    text: str
    names: frozenset[str]
    at: frozenset[str]
    """Components whose service it counts for; holds `names`."""
    factor: float = 1.0
    """By how many times it changed, either way; infinite of what is new or gone."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one comparison told."""

    results: tuple[Named, ...]
    """Best first; a report's limit may cut it."""
    total: int
    outcome: str
    exit_code: int
    tested: tuple[str, ...] = ()
    """Measures (mean, tail, errors) that its own account says changed by test."""
    external: bool = False
    """The service answered as before and its clients sent something else."""
    suspects: tuple[Named, ...] = ()
    """Places to look at first where nothing is significant."""
    there_before: bool = False
    """It says that what is wrong was there before the problem period."""


def told_by(outcome: Outcome, population: Population) -> Told:
    """What the first method of a comparison told, of findings where it has them, else of mutations."""
    method = outcome.report.methods[0].name
    findings = _section(outcome.report, FindingsSection, method)
    if findings is None:
        return _mutations(outcome, population)
    callees = callees_of(population)
    shown = _section(outcome.report, SuspectsSection, method)
    results, suspects = (
        tuple(
            Named(one.title, names, names | callee(callees, one.site), factor(one))
            for one in found
            for names in [frozenset({one.site.component, one.suspect} - {""})]
        )
        for found in (findings.findings, () if shown is None else shown.suspects)
    )
    verdict = _section(outcome.report, VerdictSection, method)
    account = _section(outcome.report, AccountSection, method)
    word = outcome.report.verdict.outcome if verdict is None else verdict.outcome
    external = verdict is not None and verdict.external
    tested = () if account is None else tuple(a.measure for a in account.accounts if a.changed)
    before = verdict is not None and any(r.kind is ReasonKind.THERE_BEFORE for r in verdict.reasons)
    return Told(
        results, findings.findings_total, word, _exit_code(outcome), tested, external, suspects, before
    )


def factor(finding: Finding | Suspect) -> float:
    """By how many times the value of a finding, or of a suspect, changed, up or down."""
    low, high = sorted((abs(finding.before), abs(finding.after)))
    return high / low if low else inf


def _exit_code(outcome: Outcome) -> int:
    """Of `flowdiff compare` without options of the gate."""
    return int(gate(outcome, FailOn(), Floor()).code)


def _section(report: Report, model: type[S], method: str) -> S | None:
    return next((s for s in report.sections if isinstance(s, model) and s.method == method), None)


def callee(callees: Callees, site: Site) -> frozenset[str]:
    """The one component that the site's calls go to; none where they go to several, or stay.

    A call is named with whom it calls, `GET -> cart`; for others the graphs are asked.
    """
    _, arrow, called = site.operation.partition(ARROW)
    if arrow:
        return frozenset({called})
    found = callees.get((site.component, site.operation), frozenset())
    return found if len(found) == 1 else frozenset()


def callees_of(population: Population) -> Callees:
    """Components that spans call, by the operation that calls; the operation's own is left out."""
    found: dict[tuple[str, str], set[str]] = {}
    for category in population.categories:
        for parent, child in _calls(category.graph):
            nodes = category.graph.nodes
            if nodes[parent].component != nodes[child].component:
                name = nodes[parent].operation.removeprefix(f"{nodes[parent].component}/")
                found.setdefault((nodes[parent].component, name), set()).add(nodes[child].component)
    return {operation: frozenset(called) for operation, called in found.items()}


def _calls(graph: Graph) -> list[tuple[int, int]]:
    """(start of the caller's span, start of the called one)."""
    starts = [at for at, node in enumerate(graph.nodes) if node.side == START]
    if graph.nesting is not None:
        return [(int(graph.nesting.parent[at]), at) for at in starts if graph.nesting.parent[at] >= 0]
    among = set(starts)
    return [(int(src), int(dst)) for src, dst in graph.edges if int(src) in among and int(dst) in among]


def _mutations(outcome: Outcome, population: Population) -> Told:
    graphs = {category.graph.key: category.graph for category in population.categories}
    reddest: dict[int, tuple[GraphNode, GraphNode]] = {}
    edges = outcome.tables["edges"].select(["rank", "category", "src", "dst", "changed", "attribution_us"])
    for row in sorted(edges.to_pylist(), key=lambda row: -abs(row["attribution_us"])):
        if row["changed"] and row["rank"] not in reddest:
            nodes = graphs[row["category"]].nodes
            reddest[row["rank"]] = (nodes[row["src"]], nodes[row["dst"]])
    best = {
        row["rank"]: graphs[row["category"]]
        for row in outcome.tables["precursors"].select(["rank", "category", "place"]).to_pylist()
        if row["place"] == 1
    }
    results = []
    for row in outcome.tables["mutations"].select(["rank", "kind", "category", "root"]).to_pylist():
        at: frozenset[str] = frozenset()
        names = at
        what = "no edge flagged"
        if row["kind"] == "structural":
            at = _unlike(graphs[row["category"]], best.get(row["rank"]))
            names = at if len(at) == 1 else names
            what = "path"
        elif edge := reddest.get(row["rank"]):
            src, dst = edge
            at = frozenset({src.component, dst.component})
            names = frozenset({src.component if src.side == END else dst.component})
            what = f"{src.text} -> {dst.text}"
        results.append(Named(f"{row['kind']} {row['root']} {row['category'][:8]}: {what}", names, at))
    return Told(
        tuple(results),
        len(results),
        outcome.report.verdict.outcome,
        _exit_code(outcome),
    )


def _unlike(graph: Graph, precursor: Graph | None) -> frozenset[str]:
    """Components of the nodes in which two graphs differ, as multisets of labels."""
    here = Counter(graph.nodes)
    there = Counter(precursor.nodes) if precursor is not None else Counter()
    return frozenset(node.component for node in [*(here - there), *(there - here)])
