"""Comparisons of recordings as judged rows, their totals, and lines for people. A row is JSON-ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evaluation.recordings.comparing import Asked, Compared
from evaluation.recordings.labelled import Fault
from evaluation.recordings.moved import OF_ROOT
from evaluation.recordings.naming import CRASHED, Named

from analyze.report.gate import GateCode

Row = dict[str, Any]
SHOWN = 10
"""Results kept a row; the number of all stands beside."""
TEXT_CHARS = 300
ON_PAGE = 3
WORST = 5
"""Quiet stretches named in a total."""


def _common(asked: Asked, found: Compared) -> Row:
    return {
        "recording": asked.recording.name,
        "method": found.method,
        "mode": asked.mode,
        "reference": asked.reference,
        "problem": asked.problem,
        "results": found.told.total,
        "suspects": len(found.told.suspects),
        "outcome": found.told.outcome,
        "exit_code": found.told.exit_code,
        "tested": list(found.told.tested),
        "moved": list(found.moved),
        "requests": list(found.requests),
        "mean_ms": [None if m is None else round(m, 3) for m in found.mean_ms],
        "load_s": found.load_s,
        "analyse_s": found.analyse_s,
        "top": [_short(result) for result in found.told.results[:SHOWN]],
    }


def _short(result: Named) -> Row:
    return {
        "text": result.text[:TEXT_CHARS],
        "names": sorted(result.names),
        "at": sorted(result.at),
    }


def fault_row(asked: Asked, fault: Fault, found: Compared) -> Row:
    """A labelled fault, judged: ranks from 1, None where no result is right; `place` counts suspects after
    results."""
    results, suspects = found.told.results, found.told.suspects
    places = (*results, *suspects)
    return {
        "kind": "fault",
        "case": fault.id.partition("/")[2],
        "service": fault.service,
        "type": fault.type,
        "visible": fault.visible,
        "rank": next((n for n, result in enumerate(results, 1) if fault.service in result.at), None),
        "place": next((n for n, one in enumerate(places, 1) if fault.service in one.at), None),
        "named": next((n for n, result in enumerate(results, 1) if fault.service in result.names), None),
        **_common(asked, found),
    }


def quiet_row(asked: Asked, found: Compared) -> Row:
    """A pair of quiet stretches: every result is false, unless the recording has an unlabelled event."""
    return {"kind": "quiet", **_common(asked, found)}


def passed_unseen(row: Row) -> bool:
    """The gate let something pass that moved: by the report's own account; by plain tests of a root type; or
    by those of the whole at a fault that can be seen (between quiet minutes they see these)."""
    if row["exit_code"] != GateCode.PASSED:
        return False
    roots = any(OF_ROOT in word for word in row["moved"])
    return bool(row["tested"]) or roots or (row.get("visible") == "visible" and bool(row["moved"]))


def crashed(row: Row) -> bool:
    """The comparison broke: what it did not find counts as not found, and the run as failed."""
    return bool(row["outcome"].startswith(CRASHED))


def kept_for_page(rows: Sequence[Row]) -> list[Row]:
    """The rows that the page tells of one by one, with as many results as it shows."""
    return [
        {**row, "top": row["top"][:ON_PAGE]}
        for row in rows
        if row["kind"] == "fault" or passed_unseen(row) or (row["results"] and row["method"] != "paper")
    ]


def totals(rows: Sequence[Row]) -> list[Row]:
    """Totals by recording, method and mode, in the order of the rows."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["recording"], row["method"], row["mode"]), []).append(row)
    return [
        {"recording": recording, "method": method, "mode": mode, **_total(group)}
        for (recording, method, mode), group in groups.items()
    ]


def _total(rows: Sequence[Row]) -> Row:
    total: Row = {}
    for visible in ("visible", "unclear", "invisible"):
        there = [row for row in rows if row.get("visible") == visible]
        if there:
            total[visible] = {
                "faults": len(there),
                "first": sum(row["rank"] == 1 for row in there),
                "first_three": sum(row["rank"] is not None and row["rank"] <= 3 for row in there),
                "anywhere": sum(row["rank"] is not None for row in there),
                "named_first": sum(row["named"] == 1 for row in there),
                "results_a_fault": _mean(row["results"] for row in there),
                "silent": sum(row["results"] == 0 for row in there),
            }
    quiet = [row for row in rows if row["kind"] == "quiet"]
    if quiet:
        total["quiet"] = {
            "pairs": len(quiet),
            "results_a_pair": _mean(row["results"] for row in quiet),
            "with_any": sum(row["results"] > 0 for row in quiet),
            "not_exit_0": sum(row["exit_code"] != GateCode.PASSED for row in quiet),
            "stretches": _stretches(quiet),
        }
    total["crashed"] = sum(crashed(row) for row in rows)
    total["passed_unseen"] = sum(passed_unseen(row) for row in rows)
    total["load_s"] = _mean(row["load_s"] for row in rows)
    total["analyse_s"] = _mean(row["analyse_s"] for row in rows)
    return total


def _stretches(quiet: Sequence[Row]) -> list[Row]:
    """The stretches in most of whose pairs something was found: what is in one of them, not noise of all."""
    pairs: dict[str, list[bool]] = {}
    for row in quiet:
        for side in ("reference", "problem"):
            pairs.setdefault(row[side], []).append(row["results"] > 0)
    worst = sorted(pairs.items(), key=lambda item: (-sum(item[1]) / len(item[1]), item[0]))
    return [
        {"stretch": stretch, "pairs": len(found), "with_any": sum(found)}
        for stretch, found in worst[:WORST]
        if any(found)
    ]


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return round(sum(every) / len(every), 3)


def line(row: Row) -> str:
    """One row for people."""
    head = f"{row['recording'][:14]:14} {row['method']:7} {row['mode']} "
    if row["kind"] == "fault":
        rank = "-" if row["rank"] is None else str(row["rank"])
        named = "" if row["named"] == row["rank"] else f" (named {row['named'] or '-'})"
        head += f"{row['case']:52} {row['visible']:9} rank {rank:>2} of {row['results']}{named}"
    else:
        head += f"{_clock(row['reference'])} | {_clock(row['problem'])}  quiet  {row['results']} results"
    means = ">".join("-" if m is None else f"{m:.1f}" for m in row["mean_ms"])
    tail = (
        f"  {row['outcome']}, exit {row['exit_code']}  n {row['requests'][0]}/{row['requests'][1]} {means} ms"
    )
    if row["moved"]:
        tail += f" [{' '.join(row['moved'])}]"
    tail += f"  {row['load_s']:.1f}+{row['analyse_s']:.1f} s"
    return head + tail + ("  PASSED UNSEEN" if passed_unseen(row) else "")


def _clock(period: str | None) -> str:
    return "-" if period is None else period[11:19]


def lines_below(row: Row, most: int) -> list[str]:
    """The first results of a row, each on a line; `>` stands before those that are right."""
    service = row.get("service")
    return [
        f"      {'>' if service in result['at'] else ' '} {n}. {result['text']}  [{', '.join(result['at'])}]"
        for n, result in enumerate(row["top"][:most], 1)
    ]


def total_lines(total: Row) -> list[str]:
    """Totals of one recording, method and mode for people."""
    head = f"{total['recording']} {total['method']} {total['mode']}"
    found = [
        f"{head}  {visible:9} {t['faults']:3} faults: first {t['first']}, in three "
        f"{t['first_three']}, anywhere {t['anywhere']} (named first {t['named_first']}); "
        f"{t['results_a_fault']} results a fault, {t['silent']} silent"
        for visible in ("visible", "unclear", "invisible")
        if (t := total.get(visible))
    ]
    if t := total.get("quiet"):
        found.append(
            f"{head}  quiet     {t['pairs']:3} pairs: {t['results_a_pair']} results a pair, "
            f"{t['with_any']} pairs with any, {t['not_exit_0']} not exit 0; most in "
            + ", ".join(f"{_clock(s['stretch'])} {s['with_any']}/{s['pairs']}" for s in t["stretches"])
        )
    found.append(
        f"{head}  passed unseen by the gate: {total['passed_unseen']}, crashed: {total['crashed']}; "
        f"load {total['load_s']} s, analysis {total['analyse_s']} s on average"
    )
    return found
