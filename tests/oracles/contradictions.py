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
_VALUES = re.compile(r"([\d.]+\xa0\S+?)(?: of its \w+)?, was ([\d.]+\xa0\S+)")


def contradictions(report: dict[str, Any], code: int) -> list[str]:
    """Look at verdict, findings, breakdown and headline of a report with its exit code (`--fail-on any`)."""
    sections = {section["section"]: section for section in report["sections"]}
    verdict, found = sections["verdict"], sections["findings"]
    mean = sections["account"]["accounts"][0]
    findings = [finding for finding in found.get("findings", ()) if isinstance(finding, dict)]
    return [
        *_of_gate(verdict["outcome"], found, findings, code),
        *(said for finding in findings for said in _of_finding(finding, changed=mean["changed"])),
        *_of_mean(mean, found, [*verdict.get("reasons", ()), report["headline"]["sentence"]]),
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


def _of_finding(finding: dict[str, Any], *, changed: bool) -> Iterator[str]:
    for row in (finding, *(row for row in finding["evidence"] if isinstance(row, dict))):
        kind, rise = row["kind"], row["after"] - row["before"]
        if (kind in MORE and rise <= 0) or (kind in LESS and rise >= 0):
            yield f"{kind}: {row['before']} → {row['after']}"
        low, high = row["change"]["low"], row["change"]["high"]
        rounded = 1e-6 * max(abs(low), abs(high))
        if not low - rounded <= rise <= high + rounded:
            yield f"{kind}: a change of {rise} is not within {low} to {high}"
    title = finding["title"]
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
    if outside and not mean["changed"] and not open_:
        yield "the interval of the mean excludes 0, and nothing says why it is not significant"
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
