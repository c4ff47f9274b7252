"""Pages of `flowdiff serve` in a real browser: what a person sees, chooses and presses."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fixtures.served_site import (
    HOSTILE,
    PROBLEM,
    REFERENCE,
    Served,
    hostile_lake,
    serving,
    simulated_lake,
    watched_lake,
)
from oracles.devtools import Tab

pytestmark = pytest.mark.browser
PICTURES = os.environ.get("FLOWDIFF_TEST_PICTURES", "")
"""Folder for pictures to look at; empty: none are taken."""

LAYOUT = """(() => {
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  const root = document.documentElement, wrong = [];
  if (root.scrollWidth > root.clientWidth) wrong.push(`wider by ${root.scrollWidth - root.clientWidth}`);
  const apart = '.numbers, .beside, .rows > div, .shell, .shell ul, .asked, .choice, .swimlanes';
  document.querySelectorAll(apart).forEach(f => {
    const boxes = [...f.children].map(e => [e, e.getBoundingClientRect()]);
    const parts = boxes.filter(([, b]) => b.width && b.height);
    parts.forEach(([e, a], i) => parts.slice(i + 1).forEach(([o, b]) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
        wrong.push(`${e.tagName} covers ${o.tagName} in ${f.className}`);
    }));
  });
  document.querySelectorAll('td.n').forEach(e => {
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) wrong.push(`spilled: ${e.textContent}`);
  });
  document.querySelectorAll('main *').forEach(e => {
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && e.tabIndex < 0
        && /auto|scroll/.test(getComputedStyle(e).overflowX)) wrong.push(`unreached: ${e.className}`);
  });
  document.querySelectorAll('.swim-names li').forEach(e => {
    const [end, name] = [e.getBoundingClientRect().right, e.querySelector('b')];
    if (e.querySelector('i').getBoundingClientRect().right > end + 1) wrong.push(`cut: ${e.textContent}`);
    if (name.clientWidth < Math.min(name.scrollWidth, 40)) wrong.push(`no name: ${e.textContent}`);
  });
  document.querySelectorAll('input, textarea, select').forEach(e => {
    if (e.type !== 'hidden' && !e.closest('label')) wrong.push(`no label: ${e.name}`);
  });
  if (document.querySelectorAll('h1').length !== 1) wrong.push('not one heading');
  return wrong;
})()"""
"""Expression with all that does not fit or cannot be reached."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> str:
    return watched_lake(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def shop(watched: str) -> Iterator[Served]:
    with serving(watched) as served:
        yield served


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(simulated_lake(tmp_path_factory.mktemp("storage"))) as served:
        yield served


def filled(site: Served) -> None:
    """Wait until all windows are read."""
    deadline = time.monotonic() + 90
    for path in ("/", "/timeline"):
        while site.get(f"{path}?span=4w&format=json").json["windows_not_read"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def loads(tab: Tab, site: Served, path: str, name: str, **how: object) -> None:
    """Open a page; it complains of nothing, asks this server only, and fits."""
    tab.open(f"{site.address}{path}", **how)  # type: ignore[arg-type]
    assert tab.complaints == []
    assert all(one.startswith((site.address, "data:")) for one in tab.asked), tab.asked
    if PICTURES:
        tab.picture(Path(PICTURES) / f"{name}.png")
    assert tab.run(LAYOUT) == [], path


def paths(shop: Served) -> dict[str, str]:
    """Pages of the watched shop, by a name for their pictures."""
    incident = shop.get("/incidents?format=json").json["incidents"][0]
    request, beside = incident["examples"]["problem"][0], incident["examples"]["reference"][0]
    root = "shop%2FGET%20%2Fcart"
    return {
        "now": "/",
        "compare": "/compare",
        "explore": "/compare?method=browse",
        "incidents": "/incidents",
        "incident": f"/incidents/{incident['id']}",
        "report": f"/reports/{incident['report']}",
        "reports": "/reports",
        "request": f"/requests/{request}?beside={beside}",
        "timeline": f"/timeline?root={root}",
        "call-sites": "/timeline",
        "versions": "/timeline?by=version",
        "finding": f"/compare/finding/1?report={incident['report']}",
        "sql": "/sql?q=SELECT%20*%20FROM%20requests%20LIMIT%203",
        "missing": "/requests/none",
    }


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1400, False), (2560, True)])
def test_every_page_fits(tab: Tab, shop: Served, width: int, dark: bool) -> None:
    filled(shop)
    for name, path in paths(shop).items():
        if name == "missing":
            continue  # a browser reports its status on the console
        loads(tab, shop, path, f"{name}-{width}{'-dark' if dark else ''}", width=width, dark=dark)


def test_every_page_is_the_same_without_script(tab: Tab, shop: Served) -> None:
    filled(shop)
    for name, path in paths(shop).items():
        if name == "sql":
            continue  # it says how long it took
        texts = []
        for script in (True, False):
            tab.open(f"{shop.address}{path}", script=script)
            texts.append(tab.run("document.body.innerText"))
        assert texts[0] == texts[1], path


def test_from_two_periods_to_the_cause(tab: Tab, storage: Served) -> None:
    filled(storage)
    tab.open(f"{storage.address}/?span=1w")
    box = tab.run(
        "(() => { const b = document.querySelector('svg.heat').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]; })()"
    )
    left, middle, width = box[0], box[1] + box[3] / 2, box[2]
    week = 7 * 86_400
    for back, ahead in ((86_400 + 600, 86_400 - 300), (3_000, 0)):  # seconds before the end of the week
        start, past = (left + width * (1 - seconds / week) for seconds in (back, ahead))
        tab.drag((start - 4, middle), (past + 3, middle))
    link = tab.run("document.querySelector('.brush-bar a')?.href")
    assert link is not None, tab.run("document.querySelector('.brush-bar').textContent")
    assert tab.complaints == []
    tab.open(link)
    assert "is not computed yet" in tab.run("document.body.innerText")
    tab.run("document.querySelector('form.asked button').click()")
    wait_for(tab, "document.querySelector('#f1') !== null")
    assert "SLOWER" in tab.run("document.querySelector('h1').textContent")
    loads(tab, storage, tab.run("location.pathname + location.search"), "comparison")
    request = tab.run("document.querySelector('#f1 a[href*=requests]').getAttribute('href')")
    loads(tab, storage, request, "request-of-finding")
    assert tab.run("document.querySelectorAll('.swimlanes').length") == 2
    assert "sn-data" in tab.run("document.querySelector('.swimlanes').innerText")


def wait_for(tab: Tab, expression: str) -> None:
    """Wait until an expression holds in the page, which may load others meanwhile."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if tab.run(expression):
                return
        except AssertionError:
            pass  # between two pages
        assert time.monotonic() < deadline, tab.run("location.href + document.body.innerText")
        time.sleep(0.2)


def test_a_question_is_asked_by_its_form(tab: Tab, storage: Served) -> None:
    tab.open(f"{storage.address}/compare?method=variance", script=False)
    tab.run(
        f"document.querySelector('[name=reference]').value = '{REFERENCE}';"
        f"document.querySelector('[name=problem]').value = '{PROBLEM}';"
        "document.querySelector('form.asked button').click()"
    )
    wait_for(tab, "document.querySelector('#results') !== null")
    assert tab.complaints == []


def test_an_incident_is_accepted(tab: Tab, watched: str, tmp_path: Path) -> None:
    with serving(str(shutil.copytree(watched, tmp_path / "lake"))) as served:
        incident = served.get("/incidents?format=json").json["incidents"][0]
        tab.open(f"{served.address}/incidents/{incident['id']}")
        tab.run(
            "document.querySelector('[name=note]').value = 'moved to another region';"
            "document.querySelector('form.asked button').click()"
        )
        wait_for(tab, "document.body.innerText.includes('moved to another region')")
        assert tab.complaints == []
        after = served.get(f"/incidents/{incident['id']}?format=json").json["incident"]
        assert (after["state"], after["note"]) == ("accepted", "moved to another region")
        again = served.post(f"/incidents/{incident['id']}/accept", {"note": "x"})
        assert again.status == 404


def test_no_name_or_value_is_markup(tab: Tab, tmp_path: Path) -> None:
    with serving(hostile_lake(tmp_path)) as served:
        filled(served)
        (report,) = served.get("/reports?format=json").json["reports"]
        (request,) = served.get(f"/sql?q={quote('SELECT request_id FROM requests LIMIT 1')}&format=json").json
        root = served.get("/?format=json").json["roots"][0]["root"]
        while (sites := served.get("/timeline?format=json").json)["windows_not_read"]:
            time.sleep(0.2)
        site = sites["sites"][0]["site"]
        for path in (
            "/",
            f"/reports/{report['id']}",
            f"/requests/{quote(request['request_id'], safe='')}",
            f"/timeline?root={quote(root, safe='')}",
            f"/timeline?site={site}",
            f"/sql?q={quote('FROM params LIMIT 5')}",
            f"/compare?where={quote(HOSTILE)}",
            f"/reports?q={quote(HOSTILE)}",
        ):
            tab.open(f"{served.address}{path}")
            assert tab.complaints == [], path
            # Markup of a name would have made these; no page of ours has an image or a script in its text.
            assert tab.run("document.querySelectorAll('img, main script, [onerror]').length") == 0, path
            assert "onerror" in tab.run("document.body.textContent + document.body.innerHTML"), path
