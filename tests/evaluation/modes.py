"""Ways to analyse: each turns a population into ranked results. `modes` are those of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evaluation.recordings.naming import told_by

from analyze.compare import compare
from analyze.methods.paper.method import METHOD
from analyze.methods.paper.settings import PaperSettings, Variant
from analyze.methods.port import AnyMethod, Chosen
from analyze.methods.registry import method_names, method_of
from analyze.population import Population
from analyze.report.gate import FailOn, Floor, gate
from analyze.report.limits import ReportLimits
from schemas.report.findings import Finding, FindingsSection

Kind = Literal["structural", "response-time", "finding"]

TABLES_ONLY = ReportLimits(mutations=1, detailed=0, categories=1, edges=1, brief_edges=1)
"""The harness reads the complete tables; the report that people see is cut short."""


ALL_MEMBERS = ReportLimits(members=1_000_000)
"""Coverage is counted over every category of a finding."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a mode is given: nothing of the truth."""

    population: Population


@dataclass(frozen=True, slots=True)
class Result:
    """One row that a person would be shown."""

    kind: Kind
    categories: tuple[str, ...]
    """Category keys it stands for."""
    precursors: tuple[str, ...] = ()
    """Category keys, most likely first."""
    edges: tuple[tuple[str, str], ...] = ()
    """(source, destination) labels of the edges it flags."""
    explained_us: float | None = None
    """Part of the change of the mean response time that it claims, µs a request of the problem period."""
    finding: Finding | None = None
    """Of kind `finding`: judged by its site, not by its categories."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one comparison showed."""

    results: list[Result]
    """Best first."""
    outcome: str = ""
    exit_code: int = 0
    external: bool = False
    """The verdict says that the service did not change and the clients did."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A named way to analyse."""

    name: str
    analyse: Callable[[Subject, int], Shown]
    """(subject, structural threshold) -> what it shows."""
    has_threshold: bool = True
    """Whether it uses the structural threshold; if not it is run once, and its rows are the same for all."""


def paper_mode(variant: Variant) -> Mode:
    """Spectroscope as published (`text`), or as its source does (`released`)."""

    def analyse(subject: Subject, threshold: int) -> Shown:
        settings = PaperSettings(variant=variant, sm_threshold=threshold)
        outcome = compare(subject.population, [Chosen(METHOD, settings)], limits=TABLES_ONLY)
        edges: dict[int, list[tuple[str, str]]] = {}
        changed = outcome.tables["edges"].filter(outcome.tables["edges"]["changed"])
        for rank, src, dst in zip(
            *(changed[name].to_pylist() for name in ("rank", "src_label", "dst_label")), strict=True
        ):
            edges.setdefault(rank, []).append((src, dst))
        precursors: dict[int, list[str]] = {}
        listed = outcome.tables["precursors"]
        for rank, key in zip(listed["rank"].to_pylist(), listed["category"].to_pylist(), strict=True):
            precursors.setdefault(rank, []).append(key)
        n1 = outcome.report.sample("problem").requests
        results = [
            Result(
                kind=row["kind"],
                categories=(row["category"],),
                precursors=tuple(precursors.get(row["rank"], ())),
                edges=tuple(edges.get(row["rank"], ())),
                explained_us=row["contribution_us"] / n1 if n1 else None,
            )
            for row in outcome.tables["mutations"].to_pylist()
        ]
        return Shown(results, outcome.report.verdict.outcome, int(gate(outcome, FailOn(), Floor()).code))

    return Mode(f"paper/{variant}", analyse)


def findings_mode(name: str, method: AnyMethod) -> Mode:
    """A method whose results are findings, with its defaults."""

    def analyse(subject: Subject, threshold: int) -> Shown:
        del threshold
        chosen = Chosen(method, method.settings())
        outcome = compare(subject.population, [chosen], limits=ALL_MEMBERS)
        told = told_by(outcome, subject.population)
        results = [
            Result(
                kind="finding",
                categories=tuple(m.category for m in finding.members if m.requests1),
                explained_us=finding.contribution_us,
                finding=finding,
            )
            for finding in outcome.report.section(FindingsSection).findings
        ]
        return Shown(results, told.outcome, told.exit_code, told.external)

    return Mode(name, analyse, has_threshold=False)


PAPER_MODES = (paper_mode("text"), paper_mode("released"))
ROBUST = "robust"


def modes() -> tuple[Mode, ...]:
    """Those of the tables: paper mode as it reads and as it was released, robust mode where there is one."""
    methods = {name: method_of(name) for name in method_names()}
    return (*PAPER_MODES, *([findings_mode(ROBUST, methods[ROBUST])] if ROBUST in methods else []))


def with_findings() -> tuple[Mode, ...]:
    """Those whose results are findings."""
    return tuple(mode for mode in modes() if not mode.has_threshold)
