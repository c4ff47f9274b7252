"""Pages *Incidents*: the list of incidents; and one incident with its history, evidence, examples and
report."""

from __future__ import annotations

from markupsafe import Markup

from analyze.methods.robust.sections.findings import kind_tag
from analyze.report import measures, wording
from analyze.report.blocks import (
    Block,
    Column,
    Fact,
    Facts,
    Grid,
    Items,
    Part,
    Styled,
    Text,
    Words,
    code,
    dim,
    joined,
    strong,
    tag,
)
from flowdiff.serve.answer import Answer, Asked, Moved
from flowdiff.serve.site import Site
from schemas.errors import NotFoundError
from schemas.incidents import Incident
from schemas.periods import format_instant


def incidents(site: Site, asked: Asked) -> Answer:
    """List the incidents of the lake's watch, open ones first."""
    watched = site.watched()
    state = asked.chosen("state", ("all", "open"))
    found = [one for one in watched.incidents if state == "all" or one.goes_on]
    first = asked.number("from", 0, 0, 10**9)
    shown = found[first : first + site.settings.listed]
    columns = (
        Column("", "State", "text", lambda row: tag(row.state, "worse" if row.goes_on else "")),
        Column(
            "",
            "Incident",
            "text",
            lambda row: Styled(wording.clip(row.headline, 200), href=site.links.to("incidents", row.id)),
        ),
        Column("", "Since (UTC)", "text", lambda row: format_instant(row.began_to_ns)),
        Column(
            "",
            "Until (UTC)",
            "text",
            lambda row: "" if row.resolved_ns is None else format_instant(row.resolved_ns),
        ),
        Column("severity", "Severity", far=1),
    )
    blocks: list[Block] = [Grid("Incidents", columns, shown, len(shown))] if shown else []
    if not shown:
        nothing = "No incident." if watched.is_watched else "Nothing watches this lake yet."
        blocks.append(Text(nothing))
        if not watched.is_watched:
            blocks.append(Text(("Start it: ", code(f"flowdiff watch --lake {site.lake}"))))
    if first + len(shown) < len(found):
        rest = wording.counted(len(found) - first - len(shown), "more incident")
        blocks.append(
            Text(Styled(rest, href=site.links.to("incidents", state=state, from_=first + len(shown))))
        )
    choices = [(name, site.links.to("incidents", state=name), name == state) for name in ("all", "open")]
    return Answer(
        "Incidents",
        blocks,
        above=site.shell.rendered("choice.html.jinja", label="State", choices=choices, note=""),
        data={"total": len(found), "incidents": shown},
    )


def found_incident(site: Site, incident_id: str) -> Incident:
    """Incident with this id. Raises NotFoundError."""
    found = next((one for one in site.watched().incidents if one.id == incident_id), None)
    if found is None:
        raise NotFoundError(f"There is no incident {incident_id}.", remedy="See the list of incidents.")
    return found


def incident(site: Site, asked: Asked) -> Answer:
    """Show one incident: its state, its events, its numbers and its examples."""
    one = found_incident(site, asked.path["incident"])
    events = [event for event in site.watched().events if event.incident_id == one.id]
    columns = (
        Column("", "At (UTC)", "text", lambda event: format_instant(event.at_ns)),
        Column("", "Event", "text", lambda event: event.kind),
        Column("", "State", "text", lambda event: event.incident.state),
        Column("", "What", "text", lambda event: wording.clip(event.incident.headline, 200)),
    )
    blocks: list[Block] = [
        Text((tag(one.state, "worse" if one.goes_on else ""), " ", tag(one.severity), dim(f" {_life(one)}"))),
        Facts(_facts(site, one)),
    ]
    if one.also:
        blocks.append(Part("Also in it", (Items(one.also),)))
    blocks.append(Part("Life", (Grid("Events", columns, events),)))
    return Answer(
        one.headline,
        blocks,
        below=site.shell.rendered("accept.html.jinja", incident=one) if one.goes_on else Markup(),
        data={
            "incident": one,
            "events": [
                {"at": format_instant(event.at_ns), "kind": event.kind, "state": event.incident.state}
                for event in events
            ],
        },
    )


def accept(site: Site, asked: Asked) -> Moved:
    """Accept an open incident as the new normal, with a person's note; redirect to the incident."""
    from analyze.watch.watching import accepted
    from flowdiff.cli.version import owner_name, version

    one = found_incident(site, asked.path["incident"])
    note = asked.one("note")[:500]
    signed = f"{note} ({asked.who})".strip() if asked.who else note
    accepted(site.lake, one.id, signed, owner_name(), f"flowdiff {version()}")
    site.watched.forget()
    return Moved(site.links.to("incidents", one.id))


def _life(one: Incident) -> str:
    since = f"began between {format_instant(one.began_from_ns)} and {format_instant(one.began_to_ns)}"
    until = "" if one.resolved_ns is None else f", over since {format_instant(one.resolved_ns)}"
    return f"{since}, opened {format_instant(one.opened_ns)} by the {one.lane} lane{until}"


def _facts(site: Site, one: Incident) -> list[Fact]:
    value = (f"{measures.value(one.unit, one.before)} → ", strong(measures.value(one.unit, one.after)))
    facts = [
        Fact("what", (kind_tag(one.kind), " ", *value)),
        Fact("where", (strong(one.component), f": {one.operation}")),
    ]
    facts += (
        [Fact("root", Styled(one.root, href=site.links.to("timeline", root=one.root)))] if one.root else []
    )
    facts += [Fact("host", one.host)] if one.host else []
    facts += [Fact("version", one.version)] if one.version else []
    facts.append(Fact("adds", f"{wording.change(one.contribution_us)} a request"))
    beside = one.examples.reference[:1]
    before = [_request(site, each, one.examples.problem[:1]) for each in one.examples.reference]
    since = [_request(site, each, beside) for each in one.examples.problem]
    facts += [Fact("requests before", joined(before))] if before else []
    facts += [Fact("requests since", joined(since))] if since else []
    facts += (
        [Fact("report", Styled(one.report, href=site.links.to("reports", one.report)))] if one.report else []
    )
    recent = wording.counted(one.recent, "incident")
    facts.append(Fact("seen", f"{wording.counted(one.looks, 'comparison')}; {recent} here in 28 days"))
    facts += [Fact("note", one.note)] if one.note else []
    return facts


def _request(site: Site, request_id: str, beside: tuple[str, ...]) -> Words:
    return Styled(
        wording.clip(request_id, 40), "code", href=site.links.to("requests", request_id, beside=beside)
    )
