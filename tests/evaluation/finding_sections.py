"""The tables of docs/internals/evaluation.md about findings: simulated cases, quiet pairs, recordings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evaluation.cases import Case
from evaluation.options import RECORDINGS
from evaluation.recordings.verdicts import passed_unseen
from evaluation.sections import markdown
from evaluation.summary import Table, means, rows_of

Content = dict[str, Any]
_FIGURE = re.compile(r"[\d.,]+\s(%|ms|µs|s)\b|[\d.,]+\s%")
MOST_TITLES = 3
"""Titles shown of a comparison."""
LISTED_FROM = 8
"""Quiet pairs that show the same finding: it is listed on the page; rarer ones are counted."""


_FINDINGS_HEAD = ("case", "mode", "findings", "first", "in three", "cov", "wrong", "false members", "err")
_FAULTS_HEAD = ("recording", "method", "reference", "faults", "n", "first", "in three", "named first")
_QUIET_HEAD = ("recording", "method", "reference", "quiet pairs", "results a pair", "with any", "not exit 0")


def findings_table(table: Table, cases: Sequence[Case]) -> str:
    """Tabulate what the findings of each case say, from records (8.6-zoom: from spans), over the seeds."""
    rows = [
        [f"**{case.key}** {case.title}", mode, *_figures(found, trials)]
        for case in cases
        for trials in [table.select(case.key, "otlp-json" if case.level == "L3" else "native")]
        for mode in table.with_findings()
        if (found := rows_of(trials, mode, case.shown))
    ]
    return markdown((*_FINDINGS_HEAD, "verdicts"), rows) if rows else "No mode with findings was measured."


def _figures(found: Sequence[Content], trials: Sequence[Content]) -> list[str]:
    m = means(found)
    n = len(found)
    something = any(t.get("concerned") for t in trials)
    first = sum(row["first_rank"] == 1 for row in found)
    three = sum(row["first_rank"] is not None and row["first_rank"] <= MOST_TITLES for row in found)
    words = Counter(row["outcome"] + (", external" if row["external"] else "") for row in found)
    return [
        m["results"].text(1),
        f"{first} of {n}" if something else "–",
        f"{three} of {n}" if something else "–",
        m["coverage_pct"].text() if something else "–",
        m["false_positive_pct"].text(),
        m["false_members_pct"].text(),
        m["explained_error_points"].text(),
        ", ".join(f"{word} {count}" for word, count in words.most_common()),
    ]


def quiet_table(content: Content | None) -> str:
    """Simulated pairs in which nothing happened, and what was found in them."""
    if content is None:
        return "Not measured yet: `tests/evaluation/run.py --quiet 200 --page`."
    rows = [
        [
            t["method"],
            "with history" if t["mode"] == "a" else "alone",
            t["scenario"],
            str(t["pairs"]),
            f"{t['results_a_pair']:g}",
            str(t["with_any"]),
            str(t["not_exit_0"]),
        ]
        for t in content["totals"]
    ]
    head = ("method", "reference", "scenario", "pairs", "results a pair", "pairs with any", "not exit 0")
    said: dict[tuple[str, ...], list[str]] = {}
    for row in content["rows"]:
        for title in row["titles"] if row["method"] != "paper" else ():
            key = (row["workload"], row["scenario"], _mode(row), _FIGURE.sub("#", title))
            said.setdefault(key, []).append(title)
    remaining = [
        f"* {', '.join(key[:3])}, {len(titles)} {'pair' if len(titles) == 1 else 'pairs'}: {titles[0]}"
        for key, titles in sorted(said.items(), key=lambda item: -len(item[1]))
    ]
    return "\n\n".join([markdown(head, rows), "Remaining findings:", "\n".join(remaining) or "none"])


def _mode(row: Content) -> str:
    return "with history" if row["mode"] == "a" else "alone"


def recordings_tables(content: Content | None) -> str:
    """Labelled faults and quiet pairs of the recordings, and every case that is not as it should be."""
    if content is None:
        return "Not measured yet: `make evaluate REAL=DIR`."
    unseen = [row for row in content["rows"] if passed_unseen(row)]
    listed = "\n".join(f"* {_where(row)}: {', '.join(row['moved'] or row['tested'])}" for row in unseen)
    parts = [
        _faults(content),
        _quiet(content),
        "### Visible faults not in the first result",
        _missed(content),
        "### Quiet pairs with a finding, invisible faults with one",
        _false(content),
        "### Passed unseen by the gate",
        "Exit code 0 although the report itself, or plain tests at a visible fault, say that mean, tail or "
        "error rate changed.",
        listed or "None.",
    ]
    return "\n\n".join(parts)


def _faults(content: Content) -> str:
    rows = [
        [
            t["recording"],
            t["method"],
            _mode(t),
            visible,
            str(f["faults"]),
            str(f["first"]),
            str(f["first_three"]),
            str(f["named_first"]),
            f"{f['results_a_fault']:.2f}",
            str(f["silent"]),
        ]
        for t in content["totals"]
        for visible in ("visible", "unclear", "invisible")
        if (f := t.get(visible))
    ]
    return markdown((*_FAULTS_HEAD, "results a fault", "nothing reported"), rows)


def _quiet(content: Content) -> str:
    rows = [
        [
            t["recording"],
            t["method"],
            _mode(t),
            str(q["pairs"]),
            f"{q['results_a_pair']:.3f}",
            str(q["with_any"]),
            str(q["not_exit_0"]),
            f"{t['load_s']:.2f} + {t['analyse_s']:.2f}",
        ]
        for t in content["totals"]
        if (q := t.get("quiet"))
    ]
    return markdown((*_QUIET_HEAD, "load + analysis, s"), rows)


def _where(row: Content) -> str:
    if row["kind"] == "fault":
        what = row["case"]
    else:
        what = f"{_clock(row['reference'])} against {_clock(row['problem'])}"
    return f"{row['recording'][:14]}, {row['method']}, {_mode(row)}, {what}"


def _clock(period: str) -> str:
    start, _, end = period.partition("/")
    return f"{start[11:19]}–{end[11:19]}"


def _listed(row: Content) -> str:
    texts = [result["text"] for result in row["top"][:MOST_TITLES]]
    return "; ".join(texts) or "nothing"


def _missed(content: Content) -> str:
    lines = [
        f"* {_where(row)}, rank {row['rank'] or '–'} of {row['results']}, {row['outcome']}: {_listed(row)}"
        for row in _looked_at(content)
        if row["kind"] == "fault" and row["visible"] == "visible" and row["rank"] != 1
    ]
    return "\n".join(lines) or "None."


def _false(content: Content) -> str:
    """List invisible faults one by one; quiet pairs by what was found in which stretch."""
    lines = [
        f"* {_where(row)}: {_listed(row)}"
        for row in _looked_at(content)
        if row["results"] and row["kind"] == "fault" and row["visible"] == "invisible"
    ]
    seen: dict[tuple[str, ...], list[Content]] = {}
    fewer = 0
    for row in _looked_at(content):
        if row["kind"] == "quiet":
            for result in row["top"]:
                # With history all pairs have one reference; alone, either stretch may be the odd one.
                stretch = row["problem"] if row["mode"] == "a" else ""
                key = (row["recording"], row["mode"], stretch, _FIGURE.sub("#", result["text"]))
                seen.setdefault(key, []).append({**row, "said": result["text"]})
    for (recording, _, stretch, _), rows in sorted(seen.items(), key=lambda item: -len(item[1])):
        where = f"{recording[:14]}, {_mode(rows[0])}" + (f", {_clock(stretch)}" if stretch else "")
        pairs = "1 quiet pair" if len(rows) == 1 else f"{len(rows)} quiet pairs"
        if len(rows) < LISTED_FROM:
            fewer += len(rows)
            continue
        lines.append(f"* {where}, {pairs}: {rows[0]['said']}")
    if fewer:
        kept = f"`docs/internals/{RECORDINGS}`"
        lines.append(f"* {fewer} more, each in fewer than {LISTED_FROM} pairs ({kept})")
    return "\n".join(lines) or "None."


def _looked_at(content: Content) -> list[Content]:
    """Rows that are listed one by one: not those of the yardstick."""
    return [row for row in content["rows"] if row["method"] != "paper"]
