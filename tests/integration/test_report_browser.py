"""The report in a real browser: nothing asked for, nothing complained about, everything there."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from oracles.shop import shop_outcome

from analyze.report.page import render_html

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CONSOLE = re.compile(r"CONSOLE[:(]|Refused to|Content Security Policy", re.IGNORECASE)


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert found is not None, "no Chromium on PATH: the report's browser tests need one"
    return found


@pytest.fixture(scope="module")
def page() -> str:
    shown = shop_outcome()
    return render_html(shown.report, shown.views)


class _Handler(BaseHTTPRequestHandler):
    """Serves one page and remembers what was asked for."""

    def __init__(self, page: bytes, asked: list[str], *args: object) -> None:
        self.page, self.asked = page, asked
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.path == "/report.html"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page if found else b"")

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def served(page: str) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, page.encode(), asked))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/report.html", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(browser: str, profile: Path, *arguments: str) -> tuple[str, str]:
    """Standard output and error of a headless run."""
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def test_page_loads_alone_and_without_complaint(browser: str, page: str, tmp_path: Path):
    with served(page) as (address, asked):
        dom, log = run(browser, tmp_path / "profile", "--dump-dom", address)
    # A browser asks for the site's icon by itself when a page comes over HTTP; the page names none.
    assert [path for path in asked if path != "/favicon.ico"] == ["/report.html"]
    assert CONSOLE.findall(log) == []
    for section in ("m1", "m2", "m3", "results", "all"):
        assert f'id="{section}"' in dom
    assert dom.count('<svg class="graph') >= 5
    assert dom.count('<svg class="plot') >= 5
    assert dom.count('class="arrow slower"') >= 1


def test_a_broken_page_would_be_noticed(browser: str, page: str, tmp_path: Path):
    """The checks above can fail: a script and an image are refused by the policy, and the console says so."""
    injected = page.replace("<main>", '<main><script>document.title="run"</script><img src="/x.png">')
    with served(injected) as (address, asked):
        dom, log = run(browser, tmp_path / "profile", "--dump-dom", address)
    assert CONSOLE.search(log)
    assert "/x.png" not in asked
    assert "<title>run</title>" not in dom


def test_hostile_names_run_nothing_even_without_the_policy(browser: str, page: str, tmp_path: Path):
    """The names of the shop try to open an alert; without the policy, only escaping stops them."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert bare != page
    file = tmp_path / "bare.html"
    file.write_text(bare, encoding="utf-8")
    dom, _ = run(browser, tmp_path / "profile", "--dump-dom", file.as_uri())
    assert dom.count("<script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom


@pytest.mark.parametrize("width", [1400, 700])
def test_page_fits_the_window(browser: str, page: str, tmp_path: Path, width: int):
    """Nothing but the regions that scroll by themselves is wider than the window."""
    probe = (
        "<script>document.documentElement.setAttribute('data-over',"
        "document.documentElement.scrollWidth - document.documentElement.clientWidth)</script></body>"
    )
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("</body>", probe)
    file = tmp_path / "probe.html"
    file.write_text(bare, encoding="utf-8")
    dom, _ = run(browser, tmp_path / "profile", f"--window-size={width},1000", "--dump-dom", file.as_uri())
    over = re.search(r'data-over="(-?\d+)"', dom)
    assert over is not None
    assert int(over[1]) <= 0
