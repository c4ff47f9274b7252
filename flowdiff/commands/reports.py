"""`flowdiff reports`: list the reports stored in a lake."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.cli.options import JsonOption, LakeOption
from flowdiff.cli.terminal import echo_json
from flowdiff.cli.upkeep import no_lake


def command(
    lake: LakeOption,
    last: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of reports listed, the newest first.")
    ] = 30,
    as_json: JsonOption = False,
) -> None:
    """List the reports stored in a lake: time, periods, verdict, mean, first finding, page.

    `reports/index.html` in the lake is the same list with links. A report keeps its address until `flowdiff
    retain --keep-reports AGE` deletes it.
    """
    import json

    from analyze.report.index import kept_at, kept_reports, outcome_words
    from analyze.report.text_table import Heading, Kind
    from flowdiff.cli.listing import print_rows
    from stitch.lake.layout import read_info
    from stitch.lake.place import open_place

    place = open_place(lake)
    if read_info(place.store, lake) is None:
        raise no_lake(lake)
    rows = kept_reports(place)[:last]
    pages = [f"{lake.rstrip('/')}/{row.path}" for row in rows]
    if as_json:
        found = [{**row.model_dump(), "page": page} for row, page in zip(rows, pages, strict=True)]
        echo_json(json.dumps(found, indent=1))
        return
    columns = [
        Heading("kept (UTC)", Kind.EXACT),
        Heading("periods", Kind.WORDS),
        Heading("verdict"),
        Heading("mean"),
        Heading("first finding, or what was measured", Kind.WORDS),
        Heading("page", Kind.EXACT),
    ]
    listed = [
        [kept_at(row), row.periods, outcome_words(row), row.mean, row.finding or row.said, page]
        for row, page in zip(rows, pages, strict=True)
    ]
    print_rows(columns, listed)
