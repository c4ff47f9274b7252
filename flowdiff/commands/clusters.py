"""`flowdiff clusters`: the method of that name by a command of its own."""

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
