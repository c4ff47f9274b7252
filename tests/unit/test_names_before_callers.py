"""What a narrow table keeps of a call site, and shares that are written apart."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from analyze.report import blocks as b
from analyze.report.measures import moved
from analyze.report.terminal import print_blocks
from analyze.report.wording import NBSP

NAME, CALLER = "ads/GetAds -> adservice", " from frontend/hipstershop.Frontend/Recv."


def printed(width: int) -> str:
    """The one row of a table of that width."""
    columns = (
        b.Column("", "Call site", "text", lambda row: (b.strong(NAME), b.dim(CALLER))),
        b.Column("", "Time", "figure", lambda row: "237 ms"),
    )
    out = StringIO()
    print_blocks([b.Grid("Call sites", columns, [1], printed=1)], Console(file=out, width=width))
    return out.getvalue().splitlines()[-1]


@pytest.mark.parametrize(
    ("width", "shown"),
    [(100, f"{NAME}{CALLER}"), (50, f"{NAME} from fro…end/Recv."), (36, NAME), (18, "ads/GetA…dservice")],
)
def test_a_caller_gives_way_before_the_name(width: int, shown: str) -> None:
    assert printed(width).split("237 ms")[0].rstrip() == shown


def test_shares_are_written_with_as_many_digits_as_tell_them_apart() -> None:
    assert moved("share", 0.9992, 0.9994).replace(NBSP, " ") == "99.92 % → 99.94 %"
    assert moved("share", 0.12, 0.31).replace(NBSP, " ") == "12 % → 31 %"
    assert moved("share", 0.5, 0.5).replace(NBSP, " ") == "50 % → 50 %"
