"""Tools for agents: a scripted client of the official SDK, over standard streams and over HTTP."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from fixtures.served_site import Served, serving, simulated_lake
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from oracles.forked_command import forked_command
from oracles.quiet_import import Quiet

import flowdiff
from flowdiff.serve.access import LEAST_TOKEN
from flowdiff.serve.agents.budget import CHARACTERS_A_TOKEN
from flowdiff.serve.routes import PAGES
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

MOST_CALLS, MOST_TOKENS = 6, 4_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return simulated_lake(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def site(lake: str) -> Iterator[Served]:
    with serving(lake) as served:
        yield served


class Agent:
    """Client that counts its calls and bounds their answers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls = 0

    async def call(self, tool: str, **arguments: Any) -> str:
        self.calls += 1
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result
        text = str(result.content[0].text)  # type: ignore[union-attr]
        assert len(text) <= MOST_TOKENS * CHARACTERS_A_TOKEN
        return text


def told(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


async def what_changed(agent: Agent) -> None:
    """From "what changed?" to the cause: the metadata server writes to the data node (fault F1)."""
    pairs = await agent.call("propose_periods")
    periods = {name: told(rf"{name}=(\S+)", pairs) for name in ("reference", "problem")}
    compared = await agent.call("compare", **periods)
    assert "SLOWER" in compared
    report = told(r"report: (\w{32})", compared)
    finding = await agent.call("finding", report=report)
    assert "sn-data/sn/WRITE_CALL instead of sn-meta/sn/WRITE_CALL" in " ".join(finding.split())
    request = told(r"request_id='([^']+)'", finding)
    flow = await agent.call("flow", request_id=request, report=report)
    assert "sn@sn-data WRITE_CALL" in flow
    assert agent.calls <= MOST_CALLS


def test_an_agent_finds_the_cause_over_standard_streams(lake: str, tmp_path: Path) -> None:
    async def run() -> None:
        with (tmp_path / "errors").open("w") as errors, forked_command(tmp_path) as place:
            program = str(place / "flowdiff")
            server = StdioServerParameters(command=program, args=["mcp", lake], env={**os.environ})
            async with Client(stdio_client(server, errlog=errors)) as client:
                await what_changed(Agent(client))

    asyncio.run(run())
    assert "Traceback" not in (tmp_path / "errors").read_text()


@asynccontextmanager
async def over_http(site: Served, headers: dict[str, str] | None = None) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers or {}, timeout=120) as http,
        Client(streamable_http_client(f"{site.address}/mcp/", http_client=http)) as client,
    ):
        yield client


def test_an_agent_finds_the_cause_over_http(site: Served) -> None:
    async def run() -> None:
        async with over_http(site) as client:
            await what_changed(Agent(client))

    asyncio.run(run())


def test_an_agent_finds_what_a_deployment_did_where_nobody_watches(tmp_path: Path) -> None:
    """In the lake of `flowdiff demo`: one recording, without a watch."""
    traces = tmp_path / "shop.jsonl"
    flowdiff.simulate(
        traces,
        workload="web-shop",
        requests=9000,
        start="2026-11-18T20:20:00Z",
        fault="S1-slow-stock",
        fault_start=1080,
    )
    shop = flowdiff.open(str(tmp_path / "shop"), create=True)
    shop.import_(traces)

    async def run(served: Served) -> None:
        async with over_http(served) as client:
            agent = Agent(client)
            pairs = await agent.call("propose_periods")
            periods = {name: told(rf"{name}=(\S+)", pairs) for name in ("reference", "problem")}
            compared = " ".join((await agent.call("compare", **periods)).split())
            # Which pair comes first depends on what is read by then; both name query, version and time.
            assert "SLOWER since 20:3" in compared
            assert "inventory/SELECT stock calling pg-main.internal" in compared
            assert "1.8.2" in compared
            assert agent.calls <= MOST_CALLS

    with serving(shop.name) as served:
        asyncio.run(run(served))


RECORDED = Path(__file__).parents[1] / "data" / "faults" / "online-boutique.otlp.jsonl.zst"
"""Recording of a shop into which faults were injected; see `cases.json` beside it."""


def recorded(folder: Path, first: str, past: str) -> str:
    """Name of a lake of a part of the recording, in windows of a minute."""
    bounds = [datetime.fromisoformat(at).timestamp() * 1e9 for at in (first, past)]
    traces = folder / "part.otlp.jsonl"
    with pa.input_stream(str(RECORDED), compression="zstd") as recording, traces.open("wb") as part:
        for line in recording.read().splitlines(keepends=True):
            begun = re.search(rb'"startTimeUnixNano": ?"(\d+)"', line)
            if begun is not None and bounds[0] <= int(begun[1]) < bounds[1]:
                part.write(line)
    settings = ImportSettings(window_length_ns=NS_PER_MINUTE)
    lake = str(folder / "lake")
    import_into(
        lake,
        [str(traces)],
        settings,
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    return lake


def test_an_agent_finds_a_fault_that_was_injected_into_a_recorded_shop(tmp_path: Path) -> None:
    """Calls of recommendationservice are delayed from 15:12:49 on; nothing says so but the traces."""
    lake = recorded(tmp_path, "2022-08-23T15:11:00Z", "2022-08-23T15:15:00Z")

    async def run(served: Served) -> None:
        async with over_http(served) as client:
            agent = Agent(client)
            pairs = await agent.call("propose_periods")
            periods = {name: told(rf"{name}=(\S+)", pairs) for name in ("reference", "problem")}
            compared = await agent.call("compare", **periods)
            assert "SLOWER" in compared
            report = told(r"report: (\w{32})", compared)
            finding = " ".join((await agent.call("finding", report=report)).split())
            assert "ListRecommendations calling recommendationservice: " in finding
            request = told(r"request_id='([^']+)'", finding)
            flow = await agent.call("flow", request_id=request, report=report)
            assert "recommendationservice" in flow
            assert agent.calls <= MOST_CALLS

    with serving(lake) as served:
        asyncio.run(run(served))


def test_every_tool_reads_only_and_answers_within_its_budget(site: Served, lake: str) -> None:
    async def run() -> None:
        async with over_http(site) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {
                *("list_windows", "propose_periods", "compare", "finding", "example_requests", "flow"),
                *("incidents", "sql"),
            }
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
            assert all(tool.description for tool in tools)
            agent = Agent(client)
            wide = "SELECT * FROM requests"
            for budget in (200, 1000):
                text = await agent.call("sql", query=wide, budget_tokens=budget)
                assert len(text) <= budget * CHARACTERS_A_TOKEN + 20
                assert "more lines" in text
            assert "2 windows" in await agent.call("list_windows")
            assert await agent.call("incidents") == "Nothing watches this lake."
            report = site.get("/reports?format=json").json["reports"][0]["id"]
            assert "typical" in await agent.call("example_requests", report=report)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "arguments", "told_"),
    [
        ("sql", {"query": "DROP TABLE requests"}, "Only statements that read"),
        ("sql", {"query": "SELECT 1", "period": "/etc@all"}, "other lakes"),
        ("compare", {"reference": "/x@all", "problem": "2026-11-19"}, "other lakes"),
        ("compare", {"reference": "2020-01-01", "problem": "2026-11-19"}, "no window"),
        ("finding", {"report": "0" * 32}, "no report"),
        ("finding", {"report": "../../../etc/pass"}, "no report"),
        ("flow", {"request_id": "nothing"}, "No request"),
        ("flow", {"request_id": ""}, "empty"),
    ],
)
def test_a_refusal_says_why(site: Served, tool: str, arguments: dict[str, str], told_: str) -> None:
    async def run() -> None:
        async with over_http(site) as client:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert told_ in str(result.content)

    asyncio.run(run())


def test_agents_need_the_role_run(lake: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    reads, runs = "r" * LEAST_TOKEN, "u" * LEAST_TOKEN
    tokens.write_text(f"read ann {reads}\nrun bob {runs}\n")
    tokens.chmod(0o600)

    async def run(served: Served) -> None:
        async with over_http(served, {"Authorization": f"Bearer {runs}"}) as client:
            assert "2 windows" in await Agent(client).call("list_windows")

    with serving(lake, "--tokens", str(tokens)) as served:
        assert served.post("/mcp/", {}).status == 401
        assert served.post("/mcp/", {}, {"Authorization": f"Bearer {reads}"}).status == 403
        asyncio.run(run(served))


def test_an_address_without_the_last_slash_leads_to_the_tools(lake: str, site: Served) -> None:
    """By its path only: a proxy may show the server under another scheme and host."""
    told = site.post("/mcp", {})
    assert (told.status, told.headers["location"]) == (307, "/mcp/")
    with serving(lake, "--base-path", "/flow") as served:
        told = served.post("/flow/mcp", {})
        assert (told.status, told.headers["location"]) == (307, "/flow/mcp/")


def test_another_site_reaches_no_tool(site: Served) -> None:
    assert site.post("/mcp/", {}, {"Origin": "http://attacker.example"}).status == 403
    assert site.post("/mcp/", {}, {"Host": "attacker.example"}).status == 421


def test_every_address_is_described(site: Served) -> None:
    document = site.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert {(path, method) for path, of in document["paths"].items() for method in of} == {
        (page.path.replace(":path", ""), page.method.lower()) for page in PAGES
    }
    for path, of in document["paths"].items():
        for operation in of.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
