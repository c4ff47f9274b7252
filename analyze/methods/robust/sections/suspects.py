"""Section on suspects: the call sites to examine first if there are no findings."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.sections.finding_rows import site_of
from analyze.methods.robust.sections.findings import kind_tag
from analyze.methods.robust.suspects import Suspected, suspects_of
from analyze.methods.robust.titles import finding_title
from analyze.report import blocks as b
from analyze.report.section_view import SectionView
from analyze.report.wording import counted, p_value, significant
from schemas.report.accounts import VerdictSection
from schemas.report.columns import arrow_table
from schemas.report.suspects import SUSPECTS, Suspect, SuspectsSection
from schemas.windows import NS_PER_US

ASKED: Final = ("cannot-tell", "not-explained")
"""Outcomes that leave open where something changed; suspects are shown only for these."""


def suspects_section(run: RobustRun, verdict: VerdictSection) -> SuspectsSection:
    """Fill the section; without suspects unless the verdict leaves open where something changed, and there is
    no finding."""
    asked = verdict.outcome in ASKED and not verdict.by_load and not run.causes
    found = suspects_of(run) if asked else ()
    return SuspectsSection(suspects=tuple(_row(one, rank, run) for rank, one in enumerate(found, 1)))


def suspects_table(section: SuspectsSection) -> pa.Table:
    """Table `suspects`, with the rows of the section."""
    return arrow_table(SUSPECTS, section.suspects)


def _row(found: Suspected, rank: int, run: RobustRun) -> Suspect:
    cause, lead, names = found.cause, found.cause.lead, run.profile.names
    site = site_of(lead.site, names)
    return Suspect(
        rank=rank,
        kind=lead.kind,
        site=site,
        title=finding_title(cause, names, run.context.hosts.host_of),
        suspect=cause.suspect or (cause.component if cause.component != site.component else ""),
        unit=lead.unit,
        before=lead.before,
        after=lead.after,
        requests0=lead.n0,
        requests1=lead.n1,
        z=min(abs(found.near.z), 1e6),
        z_needed=found.near.z_needed,
        p=lead.noise_p,
        part_us=found.part_ns / NS_PER_US,
        requests_needed=found.near.requests_needed,
        is_hidden=found.near.is_hidden,
    )


_COLUMNS: Final = (
    b.Column("title", "Where", value=lambda row: (kind_tag(row.kind), " ", row.title, _look(row))),
    b.Column("requests{}", "Requests", "count", far=1),
    b.Column("", "Change, of what is needed", "figure", lambda row: _far(row)),
    b.Column("", "What would settle it", "text", lambda row: settling(row)),
)


def suspects_blocks(section: SuspectsSection) -> b.Blocks:
    """Display of the section; empty if there are no suspects."""
    if not section.suspects:
        return ()
    return (
        b.Part(
            "Suspects",
            (b.Grid("", _COLUMNS, section.suspects),),
            note="where to look first; nothing here is significant, and no gate weighs it",
            anchor="suspects",
        ),
    )


def settling(row: Suspect) -> str:
    """Phrase for the data that would decide if a suspect has changed, e.g. `about 400 requests there in each
    period`."""
    if row.is_hidden:
        return "a history without incidents: against the reference alone it is significant"
    if row.requests_needed is None:
        return "more ordinary windows (--history): more requests would not"
    if row.requests_needed <= row.requests1:
        return "fewer places to test, or a period of its own: it is significant by itself"
    return f"about {counted(row.requests_needed, 'request')} there in each period"


def _look(row: Suspect) -> str:
    return f" (look at {row.suspect})" if row.suspect else ""


def _far(row: Suspect) -> str:
    return f"{significant(row.z, 2)} of {significant(row.z_needed, 2)} standard errors (p {p_value(row.p)})"


SUSPECTED: Final = SectionView(SuspectsSection, suspects_blocks)
