"""`flowdiff distalyze`: the method `distalyze` as a command."""

from __future__ import annotations

from flowdiff.cli.method_command import method_command

command = method_command(
    "distalyze",
    """Compare two classes of requests: what diverges, and what response time depends on.

    One period: slow with fast requests. Two: the second with the first. --host: one host with the rest.
    """,
    everyday=("instances", "host", "root"),
)
