"""`flowdiff mcp`: tools for an agent, over standard input and output."""

from __future__ import annotations

from flowdiff.cli.options import LakeOption


def command(lake: LakeOption) -> None:
    """Offer a lake to an agent as tools of the Model Context Protocol, on standard input and output.

    The tools only read: list_windows, propose_periods, compare, finding, example_requests, flow, incidents,
    sql. `flowdiff serve` offers the same at /mcp.
    """
    from flowdiff.extras import needed

    with needed():
        from flowdiff.serve.agents.server import agent_server
    from flowdiff.serve.routes import TABS
    from flowdiff.serve.settings import ServeSettings
    from flowdiff.serve.site import open_site
    from stitch.scratch import Scratch

    with Scratch() as scratch:
        site = open_site(lake, ServeSettings(), "", TABS, scratch.folder)
        try:
            agent_server(site).run("stdio")
        finally:
            site.close()
