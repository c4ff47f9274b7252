"""Pages *Reports*: the list of reports in the lake, with a search by words, and one report."""

from __future__ import annotations

from analyze.report import wording
from analyze.report.blocks import Column, Grid, Styled, Text
from analyze.report.index import kept_at, kept_reports, outcome_words
from flowdiff.serve.answer import Answer, Asked, Whole
from flowdiff.serve.report_pages import kept_report, report_page
from flowdiff.serve.site import Site
from stitch.lake.place import open_place


def reports(site: Site, asked: Asked) -> Answer:
    """List the reports of the lake, newest first."""
    words = asked.one("q").lower().split()
    first = asked.number("from", 0, 0, 10**9)
    found = [
        row
        for row in ([] if site.known().info is None else kept_reports(open_place(site.lake)))
        if all(
            word in f"{row.periods} {row.verdict} {row.finding} {row.headline} {row.method} {row.id}".lower()
            for word in words
        )
    ]
    shown = found[first : first + site.settings.listed]
    columns = (
        Column(
            "", "Kept (UTC)", "text", lambda row: Styled(kept_at(row), href=site.links.to("reports", row.id))
        ),
        Column("periods", "Periods"),
        Column("", "Verdict", "text", outcome_words),
        Column("mean", "Mean"),
        Column("", "First finding, or what was measured", "text", lambda row: row.finding or row.headline),
        Column("method", "Method", far=1),
    )
    blocks: list[Grid | Text] = [Grid("Reports", columns, shown, len(shown))] if shown else []
    if not shown:
        blocks.append(Text("No report fits these words." if words else "The lake keeps no report yet."))
    if first + len(shown) < len(found):
        rest = wording.counted(len(found) - first - len(shown), "older report")
        blocks.append(
            Text(Styled(rest, href=site.links.to("reports", q=asked.one("q"), from_=first + len(shown))))
        )
    return Answer(
        "Reports",
        blocks,
        above=site.shell.rendered(
            "search.html.jinja",
            action=site.links.to("reports"),
            label="Words in periods, verdict or finding",
            words=asked.one("q"),
        ),
        data={"total": len(found), "reports": [row.model_dump() for row in shown]},
    )


def report(site: Site, asked: Asked) -> Whole:
    """Show one report stored in the lake."""
    return report_page(site, asked, kept_report(site, asked.path["report"]), "reports")
