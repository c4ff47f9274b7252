"""The tables of docs/internals/evaluation.md as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.cases import Case, Target
from evaluation.summary import Mean, Table, means, rows_of

THRESHOLDS = ("10", "50", "scaled")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


_FIT_TOLERANCES = (
    ("categories", "categories", 0.25, True),
    ("large_pct", "large categories, %", 10.0, False),
    ("in_large_pct", "requests in large, %", 2.0, False),
    ("low_variance_pct", "large with C² < 1, %", 2.0, False),
)
"""(field, words, tolerance, relative to the papers' figure)."""


def fit_table(fits: Sequence[dict[str, Any]]) -> str:
    """Table 1 and Figure 6 beside the simulator at paper size."""
    if not fits:
        return "Not measured yet: run `make evaluate FULL=1`, or `tests/evaluation/run.py --fit`."
    rows = []
    for f in fits:
        measured, paper = f["measured"], f["paper"]
        for field, words, tolerance, relative in _FIT_TOLERANCES:
            allowed = tolerance * paper[field] if relative else tolerance
            off = measured[field] - paper[field]
            verdict = "yes" if abs(off) <= allowed else f"no, by {abs(off) - allowed:.1f}"
            shown = f"{measured[field]:,.1f}".removesuffix(".0")
            rows.append([f["workload"], words, shown, f"{paper[field]:,}", f"± {allowed:,.0f}", verdict])
        for field, words in (
            ("max_c2", "largest C²"),
            ("nodes_mean", "nodes, mean"),
            ("nodes_sd", "nodes, sd"),
        ):
            rows.append([f["workload"], words, f"{measured[field]:,.1f}", f"{paper[field]:,}", "", ""])
        rows.append(
            [f["workload"], "categories that the analyzer sees", f"{f['kernel_categories']:,}", "", "", ""]
        )
    table = markdown(("workload", "figure", "simulated", "paper", "tolerance", "within"), rows)
    traced = ", ".join(f"{f['workload']} {f['measured']['requests']:,}" for f in fits)
    stale = [f["workload"] for f in fits if not f["current"]]
    note = f"Traced requests: {traced}; 10 % of all simulated. One seed."
    if stale:
        note += (
            f" The simulator's sources have changed since for {', '.join(stale)}: measure again with `--fit`."
        )
    return f"{note}\n\n{table}"


def _figures(m: dict[str, Mean]) -> list[str]:
    rank = m["first_rank"].text()
    if m["first_rank"].value is not None and m["first_rank"].missing:
        rank += f", none in {m['first_rank'].missing}"
    return [
        m["results"].text(),
        m["top10_pct"].text(),
        m["false_positive_pct"].text(),
        m["coverage_pct"].text(),
        rank,
        m["explained_error_points"].text(),
        m["seconds"].text(2),
    ]


_HEAD = ("case", "mode", "SM", "results", "top 10", "FP", "cov", "rank", "err", "CPU s")


def published_table(table: Table, cases: Sequence[Case], *, targets: bool = True) -> str:
    """Tabulate every published row: papers and target, if asked for, and modes."""
    rows = []
    for case in cases:
        asked = [_paper_row(case), _target_row(case.target)] if targets else []
        rows += _of_case(case, [*asked, *_mode_rows(table, case, table.modes())])
    return markdown(_HEAD, rows)


def _of_case(case: Case, rows: Sequence[list[str]]) -> list[list[str]]:
    """Name a case in the first of its rows."""
    return [[f"**{case.key}** {case.title}" if at == 0 else "", *row] for at, row in enumerate(rows)]


def _mode_rows(table: Table, case: Case, modes: Sequence[str]) -> list[list[str]]:
    return [
        [mode, str(found[0]["threshold"] or "–"), *_figures(means(found))]
        for mode in modes
        if (found := rows_of(table.select(case.key), mode, case.shown))
    ]


def _paper_row(case: Case) -> list[str]:
    p = case.paper
    if p is None:
        return ["paper", *["–"] * 8]
    shown = [p.results, p.top10_pct, p.false_positive_pct, p.coverage_pct]
    return ["paper", str(case.threshold), *map(_number, shown), "–", "–", "–"]


def _target_row(target: Target | None) -> list[str]:
    if target is None:
        return ["target", *["–"] * 8]
    bounds = (
        ("≤ ", target.results),
        ("≥ ", target.top10_pct),
        ("≤ ", target.false_positive_pct),
        ("≥ ", target.coverage_pct),
        ("", target.first_rank),
        ("≤ ", target.explained_error_points),
    )
    return ["target", "–", *("–" if v is None else f"{sign}{v:g}" for sign, v in bounds), "–"]


_BOUNDS = (
    ("results", "results", 1),
    ("top10_pct", "top 10", -1),
    ("false_positive_pct", "FP", 1),
    ("coverage_pct", "cov", -1),
    ("first_rank", "rank", 1),
    ("explained_error_points", "err", 1),
)
"""(metric and field of Target, words, 1 if it is an upper bound)."""


def misses(target: Target, m: dict[str, Mean]) -> list[tuple[str, float | None, float, float | None]]:
    """(words, reached, bound, short by) of every target that is missed; None where nothing was reached."""
    missed: list[tuple[str, float | None, float, float | None]] = []
    for metric, words, sign in _BOUNDS:
        bound, reached = getattr(target, metric), m[metric].value
        if bound is None:
            continue
        if reached is None:
            if metric == "first_rank":
                missed.append((words, None, bound, None))
        elif sign * (reached - bound) > 1e-9:
            missed.append((words, reached, bound, abs(reached - bound)))
    return missed


def misses_table(table: Table, cases: Sequence[Case]) -> str:
    """List the targets that the robust mode misses, with by how much."""
    lines = []
    for case in cases:
        told_as = "otlp-json" if case.level == "L3" else "native"
        found = rows_of(table.select(case.key, told_as), "robust", case.shown)
        if not found or case.target is None:
            continue
        lines += [
            f"* {case.key}: {name} {'none' if reached is None else f'{reached:.3g}'} for {bound:g}"
            + ("" if short is None else f", missed by {short:.2g}")
            for name, reached, bound, short in misses(case.target, means(found))
        ]
    return "\n".join(lines) or "None."


def spans_table(table: Table, cases: Sequence[Case]) -> str:
    """Compare what the robust mode makes of records and of spans of the same requests."""
    rows = []
    for case in cases:
        m = means(rows_of(table.select(case.key, "otlp-json"), "robust", case.shown))
        records = means(rows_of(table.select(case.key), "robust", case.shown))
        cells = (_pair(records[k], m[k]) for k in _COMPARED)
        rows.append([f"**{case.key}** {case.title}", *cells, m["seconds"].text(2)])
    head = ("case", "results", "top 10", "FP", "cov", "rank", "CPU s")
    return "Each cell: records / spans.\n\n" + markdown(head, rows)


_COMPARED = ("results", "top10_pct", "false_positive_pct", "coverage_pct", "first_rank")


def _pair(records: Mean, spans: Mean) -> str:
    return f"{_short(records)} / {_short(spans)}"


def _short(m: Mean) -> str:
    return "–" if m.value is None else f"{m.value:,.0f}"


def faults_table(table: Table, cases: Sequence[Case]) -> str:
    """Tabulate what modes without findings give for faults that the papers do not report."""
    modes = [mode for mode in table.modes() if mode not in table.with_findings()]
    return markdown(_HEAD, [row for case in cases for row in _of_case(case, _mode_rows(table, case, modes))])


def negatives_table(table: Table, cases: Sequence[Case]) -> str:
    """Number of results where nothing is to be found, by mode and threshold."""
    thresholded = table.with_threshold()
    columns = [
        (mode, sm)
        for mode in table.modes()
        for sm in (THRESHOLDS if mode in thresholded else THRESHOLDS[-1:])
    ]
    rows = []
    for case in cases:
        trials = table.select(case.key)
        left_out = sum(n for t in trials for pair in t["excluded"].values() for n in pair) / max(
            len(trials), 1
        )
        counts = [means(rows_of(trials, mode, sm))["results"].text(1) for mode, sm in columns]
        rows.append([f"{case.key}: {case.title}", *counts, f"{left_out:,.0f}"])
    names = (f"{mode} SM {sm}" if mode in thresholded else mode for mode, sm in columns)
    head = ("case", *names, "flows left out")
    return markdown(head, rows)
