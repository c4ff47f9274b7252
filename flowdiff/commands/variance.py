"""`flowdiff variance`: find where response times vary."""

from __future__ import annotations

from flowdiff.cli.method_command import method_command

command = method_command(
    "variance",
    """Find where response times vary, and which edges make them vary.

    Of one period: the variance split between root types, paths and places, categories by C², their edges by
    what they add. Of two: also what became more variable. Exit code 0 whatever is found.
    """,
    everyday=("sort", "by", "category", "markers"),
)
