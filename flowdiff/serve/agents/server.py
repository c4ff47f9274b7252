"""Server of the Model Context Protocol for the tools, for standard streams and for HTTP."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from starlette.applications import Starlette

from flowdiff.cli.version import version
from flowdiff.serve.agents.tools import INSTRUCTIONS, Tools
from flowdiff.serve.site import Site
from schemas.errors import FlowdiffError


def agent_server(site: Site) -> MCPServer[Any]:
    """MCP server with all tools, each marked as read-only."""
    server: MCPServer[Any] = MCPServer(
        "flowdiff", instructions=INSTRUCTIONS, version=version(), log_level="WARNING"
    )
    reads = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    for tool in Tools(site).all:
        server.add_tool(_told(tool), annotations=reads, structured_output=False)
    return server


def agent_app(server: MCPServer[Any]) -> Starlette:
    """Web application that serves MCP at `/`; the server's guard checks hosts and origins before it."""
    return server.streamable_http_app(
        streamable_http_path="/",
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def _told(tool: Callable[..., str]) -> Callable[..., str]:
    """Wrap a tool so that an expected failure (FlowdiffError) is returned as its answer, with the remedy."""

    @functools.wraps(tool)
    def called(**given: Any) -> str:
        try:
            return tool(**given)
        except FlowdiffError as error:
            raise ToolError(str(error)) from error

    return called
