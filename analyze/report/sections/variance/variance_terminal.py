"""Variance on a terminal of 80 columns and more."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.text import Text

from analyze.report import measures, wording
from analyze.report.drawing.name_table import print_name_table
from analyze.report.sections.variance import variance_words as words
from schemas.report.variance import VarianceChangeSection, VarianceDetailsSection, VarianceSection

SITES: Final = 8
CATEGORIES: Final = 6
EDGES: Final = 5
DETAILS: Final = 3
PAIRS: Final = 3


def print_variance(section: VarianceSection, console: Console) -> None:
    """The split, what is watched, sites, categories."""
    console.print()
    _say(console, "Of the variance:", style="bold")
    for kind, share in words.split(section).items():
        _say(console, f"{words.share(share):>6}  {words.MEANING[kind]}")
    if text := words.residual(section):
        _say(console, text)
    if section.watched:
        _say(console, "\nTo be reduced", style="bold")
        for source in section.watched:
            _say(console, words.watched(source), style="dim" if source.resolved else "")
    left = section.residual_sd_us is not None
    console.print()
    print_name_table(
        console,
        "Places, by variance within paths",
        ("within", *(("left",) if left else ()), "total", "C²", "mean", "sd", *(("marker",) if left else ())),
        [
            (
                row.label,
                words.share(row.within),
                *((words.share(row.residual),) if left else ()),
                words.share(row.total),
                words.c2(row.c2),
                wording.duration(row.mean_us),
                wording.duration(row.sd_us),
                *((row.marker or "",) if left else ()),
            )
            for row in section.sites[:SITES]
        ],
    )
    _rest(console, SITES, section.sites_total, "place")
    console.print()
    print_name_table(
        console,
        "Categories",
        ("key", "requests", "C²", "mean", "impact"),
        [
            (
                row.root,
                words.category(row),
                wording.count(row.requests),
                words.c2(row.c2),
                wording.duration(row.mean_us),
                words.share(row.impact),
            )
            for row in section.categories[:CATEGORIES]
        ],
    )
    _rest(console, CATEGORIES, section.categories_total, "category", "categories")
    for curve in section.curves:
        name = f"{curve.sample.capitalize()}: " if len(section.curves) > 1 else ""
        _say(console, f"{name}{measures.c2_sentence(curve)}")


def print_details(section: VarianceDetailsSection, console: Console) -> None:
    """Parts of some categories, advice, suggestions."""
    for detail in section.details[:DETAILS]:
        console.print()
        _say(console, words.detail_title(detail), style="bold")
        _say(console, words.detail(detail), style="dim")
        print_name_table(
            console,
            detail.by.capitalize(),
            ("share", "less tail", "mean", "sd", "waits for", "marker"),
            [
                (
                    f"{edge.number} {edge.label}",
                    words.share(edge.share),
                    words.share(edge.share_winsorised),
                    wording.duration(edge.mean_us),
                    wording.duration(edge.sd_us),
                    "" if edge.inherits is None or edge.inherits > EDGES else str(edge.inherits),
                    edge.marker or "",
                )
                for edge in detail.edges[:EDGES]
            ],
        )
        told = [
            f"{pair.one} and {pair.other} (ρ {wording.significant(pair.rho, 2)})"
            for pair in detail.pairs
            if max(pair.one, pair.other) <= EDGES
        ][:PAIRS]
        if told:
            _say(console, f"Vary together: {', '.join(told)}.", style="dim")
    if section.advice:
        _say(console, "\nInstrumentation", style="bold")
        for advice in section.advice:
            _say(console, f"* {words.advice(advice)}")
    if section.suggestions:
        _say(console, "\nSuggested markers (not applied; copy into a file for --markers)", style="bold")
        for row in section.suggestions:
            _say(console, f"* {row.label}: {row.kind}? {row.why}, {words.share(row.within)}")


def print_change(section: VarianceChangeSection, console: Console) -> None:
    """What became more variable."""
    console.print()
    _say(console, words.change(section))
    if check := words.change_check(section):
        _say(console, check, style="dim")
    if section.sites:
        print_name_table(
            console,
            "Changed places",
            ("change", "variance", "95 % interval", "C²"),
            [
                (
                    row.label,
                    words.share(row.change, sign=True),
                    wording.factor(row.ratio),
                    words.c2_span(row.interval),
                    f"{words.c2(row.c20)} → {words.c2(row.c21)}",
                )
                for row in section.sites[:SITES]
            ],
        )
        _rest(console, SITES, section.sites_total, "place")
    else:
        _say(console, f"None of {wording.counted(section.sites_tested, 'place')} changed by test.")
    if section.categories:
        print_name_table(
            console,
            "Categories whose C² changed",
            ("key", "C²", "factor"),
            [
                (
                    row.root,
                    wording.short(row.category),
                    f"{words.c2(row.c20)} → {words.c2(row.c21)}",
                    words.c2_span(row.interval),
                )
                for row in section.categories[:CATEGORIES]
            ],
        )
        _rest(console, CATEGORIES, section.categories_total, "category", "categories")


def _say(console: Console, text: str, style: str = "") -> None:
    head = "\n" if text.startswith("\n") else ""
    console.print(Text(head + wording.visible(text.removeprefix("\n")), style=style))


def _rest(console: Console, shown: int, total: int, word: str, plural: str | None = None) -> None:
    if total > shown:
        _say(console, f"{shown} of {wording.counted(total, word, plural)}.", style="dim")
