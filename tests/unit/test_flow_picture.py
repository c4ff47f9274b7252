"""Picture at the top of a report: the calls around the first findings, before and after in one graph."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from oracles.compared_calls import compared
from oracles.refined import Call, call
from oracles.robust_report import robust_outcome

from analyze.methods.robust.sections.picture import WIDTH, picture_blocks
from analyze.report.blocks import Beside, Drawing, Only
from analyze.report.gate import Outcome
from analyze.report.limits import ReportLimits
from analyze.report.page import render_html
from schemas.report.findings import ChangeKind
from schemas.report.picture import FlowPicture, FlowStep

N = 300


def shop(n: int, *extra: Call, db_us: int = 400, status: str = "ok") -> list[Call]:
    """Requests of a page: a catalogue that asks a database, a cart, and what else is given."""
    return [
        call(
            "web/page",
            0,
            9_000 + db_us + at % 50,
            call(
                "catalogue/list",
                10,
                1_000 + db_us + at % 31,
                call("db/read", 20, db_us + at % 13, status=status),
            ),
            call("cart/get", 6_000 + db_us, 500 + at % 17),
            *extra,
        )
        for at in range(n)
    ]


def picture(outcome: Outcome) -> FlowPicture:
    found = outcome.report.picture
    assert found is not None
    return found


def named(outcome: Outcome, component: str, operation: str = "") -> FlowStep:
    """The step of a component, the callee's side where both sides are there."""
    found = [one for one in picture(outcome).steps if one.component == component]
    return next(one for one in found if not operation or one.operation == operation)


def above(outcome: Outcome, step: FlowStep) -> list[str]:
    """Components from the root to a step."""
    steps, names, at = picture(outcome).steps, [], step.above
    while at is not None:
        names.append(steps[at].component)
        at = steps[at].above
    return names[::-1]


def markup(found: FlowPicture) -> str:
    (only,) = picture_blocks(found)
    assert isinstance(only, Only)
    assert only.where == "page"
    (beside,) = only.blocks
    assert isinstance(beside, Beside)
    graph, times = beside.blocks
    assert isinstance(graph, Drawing)
    assert isinstance(times, Drawing)
    return str(graph.markup)


@pytest.fixture(scope="module")
def slower() -> Outcome:
    return compared(shop(N), shop(N, db_us=3_000))


def test_a_slower_call_stands_on_its_path_from_the_root(slower: Outcome) -> None:
    step = next(one for one in picture(slower).steps if one.leads)
    assert (step.component, step.change, step.finding, step.only) == ("db", ChangeKind.SLOWER, 1, "")
    assert above(slower, step)[0] == "web"
    assert "catalogue" in above(slower, step)
    assert picture(slower).nested
    finding = slower.report.sections[1].findings[0]  # type: ignore[attr-defined]
    assert (step.before, step.after, step.unit) == (finding.before, finding.after, finding.unit)


def test_its_siblings_are_there_and_unmarked(slower: Outcome) -> None:
    cart = [one for one in picture(slower).steps if "cart" in (one.component, one.operation.split("-> ")[-1])]
    assert cart
    assert {one.change for one in cart} == {None}
    assert cart[0].calls1 == pytest.approx(1.0)


def test_response_times_are_those_of_all_requests(slower: Outcome) -> None:
    times = picture(slower).responses
    assert (sum(times.counts0), sum(times.counts1)) == (N, N)
    assert len(times.edges_us) == len(times.counts0) + 1
    assert times.edges_us[0] < 9_400 < 12_000 < times.edges_us[-1]


def test_calls_that_one_period_has_alone_are_new_or_gone() -> None:
    ads = call("ads/pick", 7_500, 900)
    outcome = compared(shop(N), shop(N, ads))
    assert {one.only for one in picture(outcome).steps if one.component == "ads"} == {"after"}
    back = compared(shop(N, ads), shop(N))
    assert {one.only for one in picture(back).steps if one.component == "ads"} == {"before"}
    assert "gone:" in markup(picture(back))


def test_a_failing_call_says_its_share() -> None:
    outcome = compared(shop(N), [*shop(N // 2), *shop(N // 2, status="refused")])
    step = next(one for one in picture(outcome).steps if one.leads)
    assert (step.component, step.change) == ("db", ChangeKind.ERRORS)
    assert step.after == pytest.approx(0.5)
    assert "fails: 0\u00a0% → 50\u00a0% of its requests" in markup(picture(outcome))


def test_nothing_found_is_no_picture() -> None:
    assert compared(shop(N), shop(N)).report.picture is None


def test_the_number_of_calls_is_bounded_and_says_so() -> None:
    many = [call(f"helper{at}/do", 100 + 50 * at, 20) for at in range(60)]
    outcome = compared(shop(N, *many), shop(N, *many, db_us=3_000), ReportLimits(picture_steps=9))
    found = picture(outcome)
    assert len(found.steps) <= 9
    assert sum(one.hidden for one in found.steps) >= 50
    assert "more calls" in markup(found)


def test_a_long_way_is_cut_between_its_root_and_its_end() -> None:
    def deep(db_us: int) -> list[Call]:
        def level(at: int, jitter: int) -> Call:
            inner = call("db/read", 10, db_us + jitter) if at == 12 else level(at + 1, jitter)
            return call(f"s{at}/op", 10, db_us + 100 * (13 - at) + jitter, inner)

        return [call("web/page", 0, db_us + 2_000 + at % 50, level(0, at % 13)) for at in range(N)]

    outcome = compared(deep(400), deep(3_000))
    step = next(one for one in picture(outcome).steps if one.leads)
    assert above(outcome, step)[0] == "web"
    assert sum(one.skipped for one in picture(outcome).steps) > 5
    assert "calls between" in markup(picture(outcome))


def test_the_drawing_is_xml_within_its_width_and_escapes_names() -> None:
    name = "<script>&'\"</script>"
    steps = [
        FlowStep(
            component=name, operation="x" * 400, above=None, calls0=None, calls1=None, time0_us=1, time1_us=2
        ),
        *(
            FlowStep(
                component=name,
                operation=f"op{at}",
                above=at,
                only=("", "after", "before")[at % 3],  # type: ignore[arg-type]
                change=kind,
                finding=at + 1,
                leads=at == 0,
                where=name,
                unit="us",
                before=1.0,
                after=2.0,
                calls0=0.5,
                calls1=3.0,
                time0_us=1.0,
                time1_us=None,
            )
            for at, kind in enumerate(ChangeKind)
        ),
    ]
    responses = picture(compared(shop(N), shop(N, db_us=3_000))).responses
    for nested in (True, False):
        found = FlowPicture(
            roots=(name,), roots_total=3, nested=nested, steps=tuple(steps), responses=responses
        )
        drawn = markup(found)
        assert "<script" not in drawn
        tree = ElementTree.fromstring(drawn)
        for rect in tree.iter("rect"):
            assert float(rect.get("x", 0)) + float(rect.get("width", 0)) <= WIDTH
        tops = [float(rect.get("y", 0)) for rect in tree.iter("rect")]
        ends = [float(rect.get("y", 0)) + float(rect.get("height", 0)) for rect in tree.iter("rect")]
        assert all(end < top for end, top in zip(ends, tops[1:], strict=False)), "boxes overlap"
        assert tree.get("role") == "img"


def test_every_change_has_a_sign_and_a_word_beside_its_colour(slower: Outcome) -> None:
    drawn = markup(picture(slower))
    assert re.search(r'class="sign"[^>]*>▲<', drawn)
    assert "slower: " in drawn
    assert re.search(r"<title>Calls around finding 1.*finding 1: db/read, slower: ", drawn)


def test_the_page_has_it_between_the_strip_of_time_and_the_findings(slower: Outcome) -> None:
    page = render_html(slower.report, slower.views)
    places = [page.index(part) for part in ("<h1>", 'class="strip"', 'class="graph flow"', 'id="findings"')]
    assert places == sorted(places)


def test_a_report_without_one_is_drawn_all_the_same() -> None:
    old = robust_outcome()
    assert old.report.picture is None
    assert "graph flow" not in render_html(old.report, old.views)


def test_what_a_second_finding_calls_anew_is_there() -> None:
    """The database of one page is slower, and on another page the cart asks for prices, too."""

    def asked(db_us: int, *below: Call) -> list[Call]:
        return [
            call("web/page", 0, db_us + 100 + at % 50, call("db/read", 20, 20 + db_us + at % 13))
            if at % 3
            else call(
                "web/buy",
                0,
                1_500 + at % 50,
                call("cart/get", 100, 900 + at % 17, call("cart/items", 110, 150), *below),
            )
            for at in range(N)
        ]

    found = picture(compared(asked(400), asked(3_000, call("cart/prices", 200, 260))))
    (cart,) = (one for one in found.steps if one.leads and one.finding == 2)
    assert (cart.operation, cart.change) == ("get", ChangeKind.NEW_PATH)
    (prices,) = (one for one in found.steps if one.operation == "prices")
    assert prices.only == "after"
    assert prices.above is not None
    assert found.steps[prices.above] == cart
