"""`flowdiff incidents`: incidents found by the watch of a lake."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.options import JsonOption, LakeOption
from flowdiff.cli.terminal import echo, echo_json
from flowdiff.cli.version import owner_name, version
from schemas.errors import ConfigError, NotFoundError

if TYPE_CHECKING:
    from schemas.incidents import Incident

ACTIONS = ("list", "show", "accept", "mark")


def command(
    lake: LakeOption,
    action: Annotated[str, typer.Argument(metavar="|".join(ACTIONS), help="Action.")] = "list",
    what: Annotated[
        str | None,
        typer.Argument(metavar="ID|TEXT", help="Id of an incident, or a prefix of it; for mark, its text."),
    ] = None,
    note: Annotated[str, typer.Option(help="With accept: reason why the change is the new normal.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List incidents, show one, accept one as normal, or mark a deployment.

    `list`: all incidents, open ones first. `show ID`: one incident, with examples and its report. `accept
    ID`: declare its level normal; the baseline is learned anew from there. `mark "deploy v2"`: record a
    deployment now; times after it are compared with times before.
    """
    from analyze.watch.lane import incidents_of
    from analyze.watch.watching import accepted, marked
    from stitch.lake.place import open_store

    if action not in ACTIONS:
        raise ConfigError(f"'{action}' is no action.", remedy=f"Choose from {', '.join(ACTIONS)}.")
    if action != "list" and not what:
        raise ConfigError(f"{action} needs {'a text' if action == 'mark' else 'an id'}.")
    who = owner_name(), f"flowdiff {version()}"
    if action == "mark":
        marked(lake, str(what), time.time_ns(), *who)
        echo(f"marked: {what}")
        return
    if action == "accept":
        one = accepted(lake, str(what), note, *who)
        echo(f"accepted: {one.headline}")
        return
    found = incidents_of(open_store(lake))
    if action == "show":
        found = [incident for incident in found if incident.id.startswith(str(what))]
        if len(found) != 1:
            raise NotFoundError(f"{len(found)} incidents have an id that begins with '{what}'.")
    if as_json:
        echo_json(json.dumps([incident.model_dump(mode="json") for incident in found], indent=1))
        return
    for incident in found:
        for text in _lines(incident):
            echo(text)
    if action == "show":
        for text in _details(found[0], lake):
            echo(text)


def _lines(incident: Incident) -> list[str]:
    """Text of an incident in two lines, with its id and headline, which usually fit 80 columns."""
    from schemas.periods import format_instant

    since = format_instant(incident.began_to_ns)
    known = f"{incident.id}  {incident.state:<8} {incident.severity:<8} since {since}"
    return [known, f"          {incident.headline}"]


def _details(incident: Incident, lake: str) -> list[str]:
    """Description of an incident, with one fact per line."""
    from schemas.periods import format_instant

    lines = [f"where     {incident.component}: {incident.operation}"]
    lines += [f"root      {incident.root}"] if incident.root else []
    lines += [f"version   {incident.version}"] if incident.version else []
    opened = format_instant(incident.opened_ns)
    looks = f"{incident.looks} comparison{'s' if incident.looks != 1 else ''}"
    lines += [f"opened    {opened} by the {incident.lane} lane, {looks}"]
    if incident.resolved_ns is not None:
        lines.append(f"over      {format_instant(incident.resolved_ns)}")
    incidents = f"{incident.recent} incident{'s' if incident.recent != 1 else ''}"
    lines.append(f"recent    {incidents} in the 28 days before its last event")
    lines += [f"also      {text}" for text in incident.also]
    lines += [f"before    flowdiff flow --lake {lake} {one}" for one in incident.examples.reference]
    lines += [f"since     flowdiff flow --lake {lake} {one}" for one in incident.examples.problem]
    lines += [f"report    {lake}/reports/{incident.report}/report.html"] if incident.report else []
    lines += [f"note      {incident.note}"] if incident.note else []
    return lines
