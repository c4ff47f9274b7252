"""Requests of both periods that a finding names, to be held side by side."""

from __future__ import annotations

from oracles.compared_calls import compared
from oracles.refined import Call, call

from schemas.report.findings import FindingsSection

N = 300


def shop(read_us: int) -> list[Call]:
    """Two pages read one table; two of three requests before, one of three after, are of the short page."""

    def page(at: int) -> Call:
        read = call("db/read", 20, 20 + read_us + at % 13)
        is_short = at % 3 > 0 if read_us < 1_000 else at % 3 == 0
        if is_short:
            return call("web/short", 0, read_us + 100 + at % 13, read)
        return call("web/long", 0, read_us + 20_000 + at % 13, read)

    return [page(at) for at in range(N)]


def test_the_example_of_the_reference_is_of_the_root_type_of_the_problems() -> None:
    sections = compared(shop(400), shop(3_000)).report.sections
    (found,) = (section for section in sections if isinstance(section, FindingsSection))
    before, after, *_ = found.findings[0].examples
    assert (before.sample, after.sample) == ("reference", "problem")
    assert {before.what, after.what} == {"typical"}
    assert after.response_us > 20_000
    assert before.response_us > 20_000
