"""Root types, categories, and what contributions add up to: a table each, at the end of the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from analyze.report.blocks import Blocks, Column, Details, Table, Text, code
from analyze.report.section_view import SectionView
from analyze.report.wording import clip, short
from schemas.report.categories import CategoriesSection
from schemas.report.roots import RootsSection
from schemas.report.sums import SumsSection

_BOTH: Final = (
    Column("", "Requests", "count", lambda row: (row.before.count, row.after.count)),
    Column("", "Mean response time", "us", lambda row: (row.before.mean_us, row.after.mean_us)),
)
_ROOTS: Final = (Column("root", "Root type", "name"), *_BOTH)
_CATEGORIES: Final = (
    Column("", "Category", "text", lambda row: code(short(row.category), clip(row.canonical, 600))),
    Column("root", "Root type", "name"),
    Column("n_nodes", "Nodes", "count", far=1),
    *_BOTH,
    Column("", "C²", "number", lambda row: (row.before.c2, row.after.c2), far=1),
    Column("", "KS p", "p", lambda row: row.ks.p, far=1),
    Column("change_us", "Change of the sum", "change"),
    Column("", "Is", "text", lambda row: ", ".join(row.roles), far=1),
)


def roots_blocks(section: RootsSection) -> Blocks:
    """Root types, busiest first."""
    return _folded("Root types", Table("Root types", _ROOTS, section.roots, section.roots_total))


def categories_blocks(section: CategoriesSection) -> Blocks:
    """Every category, the most changed first."""
    rows, total = section.categories, section.categories_total
    return _folded("Categories", Table("Categories", _CATEGORIES, rows, total, "categories"))


def _folded(name: str, table: Table) -> Blocks:
    return (Details(f"{name} ({len(table.rows) if table.total is None else table.total})", (table,)),)


@dataclass(frozen=True, slots=True)
class _Sum:
    what: str
    estimate: float | None
    exact: float
    error: float | None


_SUMS: Final = (
    Column("what", "", "text"),
    Column("estimate", "Sum of contributions", "change"),
    Column("exact", "Exact", "change"),
    Column("error", "Relative error", "gain"),
)


def sums_blocks(section: SumsSection) -> Blocks:
    """Estimates beside what they should add up to."""
    s = section
    structure = _Sum(
        "Structure: Σ mean·Δn", s.structural_estimate_us, s.structural_exact_us, s.structural_error
    )
    timing = _Sum(
        "Timing: Σ n·Δmean", s.response_time_estimate_us, s.response_time_exact_us, s.response_time_error
    )
    text = Text(
        "The papers' contributions are estimates and need not add up. The exact rows do: structure and "
        "timing together are the change of the summed response time."
    )
    table = Table("Sums", _SUMS, (structure, timing, _Sum("Total", None, s.total_change_us, None)))
    return (Details("What the contributions add up to", (text, table)),)


ROOTS: Final = SectionView(RootsSection, roots_blocks, aside=True)
CATEGORIES: Final = SectionView(CategoriesSection, categories_blocks, aside=True)
SUMS: Final = SectionView(SumsSection, sums_blocks, aside=True)
