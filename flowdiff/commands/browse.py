"""`flowdiff browse`: look around in one period."""

from __future__ import annotations

from flowdiff.cli.method_command import method_command

command = method_command(
    "browse",
    """Look around in one period: response times, typical requests, what happened when and where.

    Writes one page: the density of response times with its modes, and what lies in any range of it; typical
    requests as train schedules; arrivals, gaps and requests in flight by time; errors, hosts, places. Of two
    periods the second, with the first's curves beside it. Exit code 0 whatever is there.
    """,
)
