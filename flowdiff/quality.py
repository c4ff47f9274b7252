"""Quality flags under a table: how many requests carry each, and whether that matters."""

from __future__ import annotations

from collections.abc import Mapping

from analyze.report.wording import count, percent
from flowdiff.listing import Heading, Kind, print_rows, print_sentence
from schemas.quality import MEANINGS, UNTESTABLE, Quality


def print_flags(flags: Mapping[Quality, int], requests: int) -> None:
    """Nothing where no request has a flag. A request may carry several."""
    if not flags:
        return
    out = sum(n for flag, n in flags.items() if flag & UNTESTABLE)
    calm = "none of them keeps a request out of tests" if out == 0 else "some keep requests out of tests"
    print()
    print_sentence(f"Flags on requests ({calm}):", style="bold")
    columns = [
        Heading("flag", Kind.EXACT),
        Heading("requests", Kind.NUMBER),
        Heading("share", Kind.NUMBER),
        Heading("meaning", Kind.PROSE),
    ]
    rows = [
        [str(flag.name), count(n), percent(n / requests), MEANINGS[flag]]
        for flag, n in sorted(flags.items(), key=lambda item: -item[1])
    ]
    print_rows(columns, rows)
