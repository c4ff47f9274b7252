"""`flowdiff clusters`: the method `clusters` as a command."""

from __future__ import annotations

from flowdiff.cli.method_command import method_command

command = method_command(
    "clusters",
    """Group requests by what they do and how long, and overlay the groups' call trees.

    Of one period: groups, and what distinguishes each from its nearest. Of two: which groups grew or shrank,
    where they came from, and where their trees differ. Exit code 0 whatever is found.
    """,
    everyday=("features", "style", "clusters"),
)
