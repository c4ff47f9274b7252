"""What a reader would find to contradict itself in the JSON of a robust report, a sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

CODES = {"unchanged": 0, "cannot-tell": 3, "not-explained": 3, "partly-explained": 1, "changed": 1}
"""Outcome -> exit code, where all that was found counts."""
MORE = {"slower", "tail", "more-calls", "errors", "new-path", "parallel"}
LESS = {"faster", "fewer-calls", "fewer-errors", "lost-path", "serial"}
"""Kinds whose value rises, and falls; that of another path may do either."""
WORSE = {"slower", "tail", "more-calls", "fewer-calls", "errors", "serial"}
"""Kinds that lead nothing that is for the better."""
MEASURES = {
    "mean": "mean response time",
    "tail": "share of slow requests",
    "errors": "share of requests with a failing call",
}
_VALUES = re.compile(r"([\d.]+\xa0\S+?)(?: of its \w+)?, was ([\d.]+\xa0\S+)")


def contradictions(report: dict[str, Any], code: int) -> list[str]:
    """Look at verdict, findings, breakdown and headline of a report with its exit code (`--fail-on any`)."""
    sections = {section["section"]: section for section in report["sections"]}
    verdict, found = sections["verdict"], sections["findings"]
    accounts = [row for row in sections["account"]["accounts"] if isinstance(row, dict)]
    mean = accounts[0]
    findings = [finding for finding in found.get("findings", ()) if isinstance(finding, dict)]
    return [
        *_of_gate(verdict["outcome"], found, findings, code),
        *_of_verdict(verdict, accounts, found["findings_total"]),
        *(said for finding in findings for said in _of_finding(finding, changed=mean["changed"])),
        *_of_mean(
            mean, found, [*(r["text"] for r in verdict.get("reasons", ())), report["headline"]["sentence"]]
        ),
    ]


def _of_gate(outcome: str, found: dict[str, Any], findings: list[dict[str, Any]], code: int) -> Iterator[str]:
    total, better = found["findings_total"], found["better_total"]
    if better > total:
        yield f"{better} of {total} findings are better"
    if (total > 0) != (CODES[outcome] == 1):
        yield f"{total} findings, and the verdict is {outcome}"
    left = total - (better if found.get("only") == "worse" else 0)
    # Known paths may have no effect, and what is for the better does not count where that is asked for.
    passes = CODES[outcome] == 1 and (not left or all(finding["kind"] == "path" for finding in findings))
    if code != CODES[outcome] and not passes:
        yield f"the verdict is {outcome}, and the exit code {code}"
    if found.get("only") == "worse" and not left and code == 1:
        yield "nothing but what is better fails a gate that asks for what is worse"


def _of_verdict(verdict: dict[str, Any], accounts: list[dict[str, Any]], findings: int) -> Iterator[str]:
    reasons = verdict.get("reasons", ())
    for account in accounts:
        low, high, name = account.get("low"), account.get("high"), MEASURES[account["measure"]]
        if account["changed"] and verdict["outcome"] == "unchanged":
            yield f"unchanged beside a significant change of the {name}"
        outside = low is not None and high is not None and not low <= 0 <= high
        said = any(name in r["text"] and "is not significant" in r["text"] for r in reasons)
        if outside and not account["changed"] and not said:
            yield f"the interval of the {name} excludes 0, and nothing says why it is not significant"
        ranks = [row.get("finding") for row in account.get("rows", ()) if isinstance(row, dict)]
        if any(rank is not None and not 1 <= rank <= findings for rank in ranks):
            yield f"a row of the {name} names a finding that is not there"
    unexplained = verdict["outcome"] == "not-explained" and not verdict.get("by_load")
    if not unexplained and any(reason["text"].startswith("Likely at ") for reason in reasons):
        yield f"a likely place is named, and the verdict is {verdict['outcome']}"
    wanted = [reason for reason in reasons if "would tell" in reason["text"]]
    if len(wanted) > 1 or bool(wanted) != (verdict.get("missing_requests") is not None):
        yield "how many requests are missing is not one number"


def _of_finding(finding: dict[str, Any], *, changed: bool) -> Iterator[str]:
    for row in (finding, *(row for row in finding["evidence"] if isinstance(row, dict))):
        kind, rise = row["kind"], row["after"] - row["before"]
        if (kind in MORE and rise <= 0) or (kind in LESS and rise >= 0):
            yield f"{kind}: {row['before']} → {row['after']}"
        low, high = row["change"]["low"], row["change"]["high"]
        rounded = 1e-6 * max(abs(low), abs(high))
        if not low - rounded <= rise <= high + rounded:
            yield f"{kind}: a change of {rise} is not within {low} to {high}"
    title, ends = finding["title"], finding["change"]
    if not (ends["low"] > 0 if finding["after"] > finding["before"] else ends["high"] < 0):
        yield f"no test supports the title: {title}"
    if finding["is_better"] and finding["kind"] in WORSE:
        yield f"better: {title}"
    if (values := _VALUES.search(title)) and values[1] == values[2]:
        yield f"no difference is shown: {title}"
    if not changed and finding.get("share_of_change"):
        yield f"a part of a change that is not significant: {title}"


def _of_mean(mean: dict[str, Any], found: dict[str, Any], said: list[str]) -> Iterator[str]:
    low, high = mean.get("low"), mean.get("high")
    outside = low is not None and high is not None and not low <= 0 <= high
    open_ = [text for text in said if "mean response time is not significant" in text]
    if open_ and not outside:
        yield open_[0]
    if (unsure := found.get("insignificant_mean")) and (
        mean["changed"] or unsure != {"low": low, "high": high}
    ):
        yield f"the mean is called insignificant: {unsure}"
    for text in said:
        way = re.search(r"[Mm]ean response time (rose|fell) from", text)
        if way and (not mean["changed"] or (way[1] == "rose") != (mean["after"] > mean["before"])):
            yield text
        if mean["changed"] and re.search(
            r"mean response time (did not change|is not) significant|Nothing changed", text
        ):
            yield text
