"""`flowdiff serve`: the server around its pages, as a process of its own."""

from __future__ import annotations

import re
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from fixtures.served_site import Served, serving, simulated_lake
from oracles import fork_server
from oracles.waiting import PATIENCE_S, wait_until

from flowdiff.serve.access import LEAST_TOKEN
from flowdiff.serve.routes import PAGES


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return simulated_lake(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def site(lake: str) -> Iterator[Served]:
    with serving(lake, "--set", "header_seconds=3", "--set", "most_body_bytes=2048") as served:
        yield served


def filled(site: Served, path: str) -> dict[str, object]:
    """JSON of *Now* once all windows are read."""

    def found() -> dict[str, object] | None:
        told: dict[str, object] = site.get(path).json
        return None if told["windows_not_read"] else told

    return wait_until(found, every_s=0.2)


def test_now_has_the_numbers_of_the_view_responses(site: Served, lake: str) -> None:
    import flowdiff

    found = filled(site, "/?span=1w&format=json")
    rows = flowdiff.open(lake).sql(
        "SELECT root, sum(requests) AS requests, sum(weighted * mean_us) / sum(weighted) AS mean_us"
        " FROM responses GROUP BY root ORDER BY sum(weighted * mean_us) DESC"
    )
    roots = found["roots"]
    assert isinstance(roots, list)
    assert [(one["root"], one["requests"]) for one in roots] == [
        (row["root"], row["requests"]) for row in rows.arrow().to_pylist()
    ]
    assert [one["mean_us"] for one in roots] == pytest.approx(
        [row["mean_us"] for row in rows.arrow().to_pylist()]
    )


def test_every_page_is_complete_and_strict(site: Served) -> None:
    report = site.get("/reports?format=json").json["reports"][0]["id"]
    for path in ("/", "/?span=4w", "/incidents", "/reports", "/reports?q=nothing", f"/reports/{report}"):
        got = site.get(path)
        assert got.status == 200, path
        policy = got.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert " style=" not in got.text
        assert "<script>" not in got.text
        assert got.headers["x-content-type-options"] == "nosniff"


def test_every_page_has_a_form_for_programs(site: Served) -> None:
    for page in PAGES:
        if page.method == "GET" and "{" not in page.path:
            got = site.get(f"{page.path}?format=json")
            assert got.status == 200
            assert got.headers["content-type"] == "application/json"
            assert isinstance(got.json, dict)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/reports/0123456789abcdef", 404),
        ("/reports/..%2f..%2fflowdiff.json", 404),
        ("/static/..%2f..%2fapp.py", 404),
        ("/../../../../etc/passwd", 404),
        ("/static/../../../etc/passwd", 404),
        ("/static/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/static//etc/passwd", 404),
        ("/results/..%2f..%2fflowdiff.json", 404),
        ("/sql?q=" + "x" * 20_001, 400),
        ("/sql?" + "q=x&" * 2_000, 400),
        ("/incidents/none", 404),
        ("/?span=long", 400),
        ("/reports?from=-1", 400),
        ("/reports?from=9999999999999999999999", 400),
    ],
)
def test_wrong_addresses_are_told_apart(site: Served, path: str, status: int) -> None:
    got = site.get(path)
    assert got.status == status
    assert "Traceback" not in got.text
    assert site.get("/healthz").status == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", ""]
)
def test_another_name_of_this_machine_is_refused(site: Served, host: str) -> None:
    assert site.get("/", {"Host": host}).status == 421


def test_a_request_names_one_host(site: Served) -> None:
    assert (
        raw(site, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n").split()[1] == b"400"
    )


SMUGGLED = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 40\r\n\r\n",
    "a length with a sign": b"Content-Length: +0\r\n\r\n",
    "chunks by another name": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
}
"""Ends of a request's head about which a proxy in front could think otherwise, and a body."""


@pytest.mark.parametrize("kind", SMUGGLED)
def test_no_request_is_smuggled_behind_another(site: Served, kind: str) -> None:
    """What a proxy may take for a body is no request of its own; the first is refused, or the last one."""
    first = b"POST /incidents/none/accept HTTP/1.1\r\nHost: localhost\r\n" + SMUGGLED[kind]
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=5) as connection:
        connection.sendall(first + hidden)
        found = b""
        with suppress(TimeoutError, ConnectionError):
            while part := connection.recv(65536):
                found += part
    assert found.count(b"HTTP/1.1 200") == 0, found
    assert site.get("/healthz").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://[attacker"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_changes_nothing(site: Served, headers: dict[str, str]) -> None:
    assert site.post("/incidents/none/accept", {"note": "x"}, headers).status == 403
    own = {"Origin": site.address, "Sec-Fetch-Site": "same-origin"}
    assert site.post("/incidents/none/accept", {"note": "x"}, own).status == 404


def test_nothing_is_changed_by_get(site: Served) -> None:
    assert site.get("/incidents/none/accept").status == 405


def test_a_body_is_bounded(site: Served) -> None:
    assert site.post("/incidents/none/accept", {"note": "x" * 4000}).status == 413
    for path in (b"/sign-in", b"/compare"):
        chunks = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = raw(site, chunks + (b"400\r\n" + b"x" * 1024 + b"\r\n") * 3)
        assert answer.split()[1] == b"413"
        assert b"connection: close" in answer.lower()


def test_a_sender_that_leaves_is_no_failure(site: Served) -> None:
    cut = b"POST /compare HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nreference"
    with socket.create_connection(("127.0.0.1", site.port), timeout=5) as connection:
        connection.sendall(cut)
    counted = 'flowdiff_serve_answers_total{page="/compare",status='
    wait_until(lambda: f'{counted}"400"}}' in site.get("/metrics").text)
    assert f'{counted}"500"}}' not in site.get("/metrics").text


def raw(site: Served, sent: bytes) -> bytes:
    """Answer to some bytes, until its head is whole or the server closes the connection."""
    with sending(site, sent) as connection:
        return answer_on(connection)


def sending(site: Served, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_S)
    connection.sendall(sent)
    return connection


def answer_on(connection: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found and (part := connection.recv(65536)):
        found += part
    return found


def test_slow_clients_are_closed(site: Served) -> None:
    slow = [
        b"GET / HTTP/1.1\r\nHost: local",
        b"",
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntok",
        b"POST /compare HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nref",
    ]
    with ExitStack() as opened:
        connections = [opened.enter_context(sending(site, sent)) for sent in slow]
        answers = [answer_on(connection) for connection in connections]
    assert answers[:2] == [b"", b""]
    assert [answer.split()[1] for answer in answers[2:]] == [b"408", b"408"]
    assert site.get("/healthz").status == 200


def test_metrics_count_answers(site: Served) -> None:
    site.get("/reports")
    assert 'flowdiff_serve_answers_total{page="/reports",status="200"}' in site.get("/metrics").text


def test_an_empty_lake_says_what_to_send_where(tmp_path: Path) -> None:
    with serving(str(tmp_path / "none"), "--base-path", "/flow") as served:
        got = served.get("/flow/")
        assert got.status == 200
        assert "OTEL_EXPORTER_OTLP_ENDPOINT" in got.text
        assert f"flowdiff import TRACES.json --lake {tmp_path / 'none'}" in got.text.replace("<wbr>", "")
        assert 'href="/flow/reports"' in got.text
        assert served.get("/").status == 404
        assert served.get("/flow").headers["location"] == "/flow/"
        assert served.get("/flow?format=json").headers["location"] == "/flow/?format=json"
        for path in (
            "/flow/requests",
            "/flow/reports/",
        ):  # a redirect would name the scheme and host of this server
            assert "location" not in served.get(path).headers
            assert served.get(path).status == 404
        assert not (tmp_path / "none").exists()
        commands = served.get("/flow/?format=json").json["commands"]
    assert len(commands) > 3
    for command in commands:  # with all of its options
        words = shlex.split(command)
        said = fork_server.run(
            [sys.executable, "-m", *words[:2], "--help"], capture_output=True, text=True, check=True
        ).stdout
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\s", said), command


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--listen", "0.0.0.0:0"], "could read the lake"),
        (["--listen", "nowhere"], "is no address"),
        (["--set", "threads=0"], "greater than or equal to 1"),
        (["--set", "colour=red"], "colour"),
        (["--base-path", "x"], "is no path"),
        (["--base-path", "//attacker.example"], "is no path"),
        (["--user-header", "X-User"], "belong together"),
    ],
)
def test_wrong_options_are_one_line(lake: str, options: list[str], told: str) -> None:
    done = fork_server.run(
        [sys.executable, "-m", "flowdiff", "serve", lake, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_roles(lake: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    reads, marks = "r" * LEAST_TOKEN, "m" * LEAST_TOKEN
    tokens.write_text(f"# users\nread ann {reads}\nmark bob {marks}\n")
    tokens.chmod(0o600)
    with serving(lake, "--tokens", str(tokens)) as served:
        assert served.get("/").status == 401
        assert served.get("/reports?format=json").status == 401
        assert served.get("/healthz").status == 200
        assert served.get("/", {"Authorization": f"Bearer {reads}"}).status == 200
        assert served.get("/", {"Authorization": f"Bearer {reads}x"}).status == 401
        ann = {"Authorization": f"Bearer {reads}"}
        assert served.post("/incidents/x/accept", {}, ann).status == 403
        assert served.post("/incidents/x/accept", {}, {"Authorization": f"Bearer {marks}"}).status == 404
        assert served.post("/sign-in", {"token": "wrong"}).status == 401
        entered = served.post("/sign-in", {"token": reads, "back": "//attacker.example"})
        assert entered.status == 303
        assert entered.headers["location"] == "/"
        cookie = entered.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict"))
        assert "Secure" not in cookie
        assert served.get("/", {"Cookie": cookie.partition(";")[0]}).status == 200
        by_tls = {"Host": "localhost", "Origin": "https://localhost"}  # a proxy before it ends TLS
        assert "Secure" in served.post("/sign-in", {"token": reads}, by_tls).headers["set-cookie"]


def test_tokens_that_others_may_read_are_refused(lake: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read ann {'r' * LEAST_TOKEN}\n")
    tokens.chmod(0o644)
    done = fork_server.run(
        [sys.executable, "-m", "flowdiff", "serve", lake, "--tokens", str(tokens)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, "chmod 600" in done.stderr) == (2, True)


def test_a_header_is_believed_from_proxies_only(lake: str) -> None:
    with serving(lake, "--user-header", "X-User", "--proxy", "127.0.0.2") as served:
        assert served.get("/", {"X-User": "ann"}, from_="127.0.0.2").status == 200
        assert served.get("/", {"X-User": "ann"}, from_="127.0.0.3").status == 401
        assert served.get("/", from_="127.0.0.2").status == 401
