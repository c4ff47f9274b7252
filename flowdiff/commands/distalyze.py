"""`flowdiff distalyze`: the method of that name by a command of its own."""

from __future__ import annotations

from flowdiff.cli.method_command import method_command

command = method_command(
    "distalyze",
    """Hold two classes of requests against each other: what diverges, and what response time depends on.

    One period: slow against fast. Two: the second against the first. --host: one host against the rest.
    """,
    everyday=("instances", "contrast", "host", "root"),
)
