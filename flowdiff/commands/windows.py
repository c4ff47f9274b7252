"""`flowdiff windows`: what is in a lake, window by window."""

from __future__ import annotations

from flowdiff.cli.options import JsonOption, LakeOption, PeriodOption, UnsealedOption, period_of


def command(
    lake: LakeOption,
    period: PeriodOption = "all",
    unsealed: UnsealedOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the sealed windows of a lake: requests, categories, mean response time, errors."""
    from analyze.report.wording import count, duration, percent
    from analyze.sql.browse import flagged, windows
    from analyze.sql.session import open_session
    from flowdiff.cli.listing import Heading, Kind, print_flags, print_rows
    from flowdiff.cli.table_output import print_json

    with open_session(period_of(lake, period, unsealed=unsealed)) as session:
        rows = windows(session)
        flags, requests = flagged(session)
    if as_json:
        print_json(rows)
        return
    numbers = ("requests", "categories", "mean", "errors", "error rate", "flagged")
    columns = [Heading("window (UTC)", Kind.EXACT), *(Heading(name, Kind.NUMBER) for name in numbers)]
    listed = [
        [
            f"{row['window_start']:%Y-%m-%d %H:%M}",
            count(row["requests"]),
            count(row["categories"]),
            duration(row["mean_us"]),
            count(row["errors"]),
            percent(row["error_rate"]),
            count(row["flagged"]),
        ]
        for row in rows.to_pylist()
    ]
    print_rows(columns, listed)
    print_flags(flags, requests)
