"""Variance in words: one place for terminal and page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from analyze.report import wording
from schemas.report.findings import Interval
from schemas.report.variance import (
    EdgeAdvice,
    MarkerRow,
    MarkerSuggestion,
    VariableCategory,
    VariableSite,
    VarianceChangeSection,
    VarianceDetail,
    VarianceSection,
    WatchedSource,
)

TAIL_KEPT: Final = 0.5
"""Where cutting half a percent of the times leaves less than this of the variance, tails are heavy."""

MOSTLY_BETWEEN: Final = 0.5
"""From this part of a change on a reader is told that it lies between paths."""
LEAST_SHARE: Final = 1e-4
"""Smaller shares are not told apart."""

MEANING: Final = {
    "roots": "between root types: unlike work",
    "paths": "between paths of a root type: unlike ways",
    "within": "within paths: same way, unlike time",
}


@dataclass(frozen=True, slots=True)
class RootParts:
    """One root type's part of the variance."""

    root: str
    paths: float
    within: float

    @property
    def total(self) -> float:
        """Both; the part between root types is of no single one."""
        return self.paths + self.within


def split(section: VarianceSection) -> dict[str, float]:
    """Parts of the whole by kind, in order."""
    return {part.kind: part.share for part in section.parts if part.root is None}


def root_parts(section: VarianceSection, most: int) -> list[RootParts]:
    """Root types by their part, at most `most`."""
    found: dict[str, dict[str, float]] = {}
    for part in section.parts:
        if part.root is not None:
            found.setdefault(part.root, {})[part.kind] = part.share
    rows = [RootParts(root, parts["paths"], parts["within"]) for root, parts in found.items()]
    return sorted(rows, key=lambda row: (-row.total, row.root))[:most]


def share(value: float | None, *, sign: bool = False) -> str:
    """A share as `wording.percent` words it; what is next to nothing as such."""
    if value is not None and 0 < abs(value) < LEAST_SHARE:
        return f"<{wording.NBSP}{wording.percent(LEAST_SHARE)}"
    return wording.percent(value, sign=sign)


def c2(value: float | None) -> str:
    """`2.3`; `–` for too few requests."""
    return "–" if value is None else wording.significant(value, 2)


def c2_span(interval: Interval | None) -> str:
    """`1.9 to 2.8`; empty where it is not known."""
    if interval is None:
        return ""
    return f"{wording.rough(interval.low, 2)} to {wording.rough(interval.high, 2)}"


def share_span(interval: Interval | None) -> str:
    """`38 % to 52 %`; empty where it is not known, or next to nothing."""
    if interval is None or max(abs(interval.low), abs(interval.high)) < LEAST_SHARE:
        return ""
    return f"{wording.percent(interval.low)} to {wording.percent(interval.high)}"


def residual(section: VarianceSection) -> str:
    """What markers take out; empty without any that hold."""
    if section.marked_share is None or section.residual_sd_us is None:
        return ""
    return (
        f"Marked sources carry {wording.percent(section.marked_share)} of the variance. Without them "
        f"response times vary by {wording.duration(section.residual_sd_us)}; the order is of what is left."
    )


def category(row: VariableCategory) -> str:
    """`a1b2c3d4e5`, or `12 rare paths`."""
    return wording.short(row.category) if row.category else wording.counted(row.members, "rare path")


def detail_title(detail: VarianceDetail) -> str:
    """`NFS/READ a1b2c3d4e5`, `NFS/READ, rare paths`."""
    key = f" {wording.short(detail.category)}" if detail.category else ", rare paths"
    return f"{detail.root}{key}"


def detail(found: VarianceDetail) -> str:
    """One sentence about a category."""
    tail = ""
    if found.kept < TAIL_KEPT:
        left = wording.percent(found.kept)
        tail = f" Heavy tail: without the longest 0.5 % of each part, {left} of it is left."
    return (
        f"{wording.counted(found.requests, 'request')}, C² {c2(found.c2)}, standard deviation "
        f"{wording.duration(found.sd_us)}; {wording.percent(found.impact)} of the variance of all.{tail}"
    )


def advice(found: EdgeAdvice) -> str:
    """What an edge merges, and what to do."""
    where = f" in {wording.counted(found.categories, 'category', 'categories')}"
    merged = (
        f"{found.label}{where} merges two behaviours: about {wording.duration(found.low_us)} and, in "
        f"{wording.percent(found.high_share)} of the requests, about {wording.duration(found.high_us)}. "
    )
    known = found.explanation
    if known is not None and known.reliable:
        return merged + f"A parameter tells them apart: {known.sentence}"
    if known is not None:
        return merged + "No recorded parameter tells them apart: add a trace point or a label here."
    return merged + "Add a trace point or a label here, or make a parameter that tells them apart a label."


def marker(row: MarkerRow) -> str:
    """`intrinsic, storage: one disk a node (until 2027-03-01)`."""
    until = "" if row.expires is None else f" (until {row.expires})"
    return f"{row.kind}, {row.owner}: {row.reason}{until}"


def expired(section: VarianceSection) -> tuple[str, ...]:
    """A warning for each marker that has lapsed."""
    return tuple(
        f"The marker '{row.label}' ({row.kind}, {row.owner}) expired on {row.expires} and has no effect: "
        "renew it or remove it."
        for row in section.markers
        if row.state == "expired"
    )


def watched(source: WatchedSource) -> str:
    """`a -> b: C² 3.4, 12 % of the variance. …`"""
    text = f"{source.site}: C² {c2(source.c2)}, {wording.percent(source.within)} of the variance. "
    text += f"To be reduced ({source.marker.owner}: {source.marker.reason})."
    return f"{text} C² is below 1: the marker may go." if source.resolved else text


def suggestion_toml(rows: tuple[MarkerSuggestion, ...]) -> str:
    """Suggested markers as a file's text, for who agrees to copy."""
    return "\n".join(
        f"[[marker]]  # {wording.percent(row.within)} of the variance: {row.why}\n"
        f'label = {_quoted(row.label)}\nkind = "{row.kind}"\nowner = ""\nreason = ""\n'
        for row in rows
    )


def _quoted(text: str) -> str:
    """A TOML string: whatever is in a name, it stays one."""
    plain = wording.visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def change(section: VarianceChangeSection) -> str:
    """One sentence about the whole."""
    moved = wording.moved_duration(section.sd0_us, section.sd1_us)
    text = f"Standard deviation of all response times: {moved}"
    if section.interval is not None and not math.isclose(section.ratio, 1.0):
        text += (
            f"; variance {wording.factor(section.ratio)} ({c2_span(section.interval)} with 95 % certainty)"
        )
    text += "."
    if section.between is not None and section.between >= MOSTLY_BETWEEN:
        text += (
            f" {wording.percent(min(section.between, 1.0))} of the change lies between paths: what some "
            "requests do took longer or shorter alike, and no place need vary more. The command compare "
            "tells where."
        )
    return text


def change_check(section: VarianceChangeSection) -> str:
    """The papers' check, in a sentence; empty where it was not run."""
    if section.ks_p is None:
        return ""
    told = "differ" if section.ks_p < 0.05 else "do not differ"
    return (
        f"The variances of large categories as a whole {told} before and after "
        f"(Kolmogorov-Smirnov, p {wording.p_value(section.ks_p)})."
    )


def site(row: VariableSite) -> str:
    """Its label, and who calls."""
    return row.label if row.caller is None else f"{row.label} (from {row.caller})"
