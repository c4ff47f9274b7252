"""Say what changed in the way a distributed system serves requests; from Python, `flowdiff.open(lake)`.

    import flowdiff

    lake = flowdiff.open("demo/lake")
    lake.windows()
    lake.sql("select root, count(*) n from requests group by root")
    found = lake.compare("2026-11-18", "2026-11-19")
    print(found.verdict.text, *(finding.title for finding in found.findings), sep="\\n")

Everything else is private by name: it may change with any version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdiff.lake import Lake


def open(lake: str) -> Lake:
    """The lake of a name: a folder, or s3://BUCKET/PREFIX. Raises LakeError where there is none."""
    from flowdiff.lake import Lake  # a command starts without it

    return Lake(lake)
