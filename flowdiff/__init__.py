"""Say what changed in the way a distributed system serves requests; from Python, `flowdiff.open(lake)`.

    import flowdiff

    lake = flowdiff.open("demo/lake")
    lake.windows()
    lake.sql("select root, count(*) n from requests group by root")
    found = lake.compare("2026-11-18T20:20/18m", "2026-11-18T20:38/12m")
    print(found.verdict.text, *(finding.title for finding in found.findings), sep="\\n")

Public names are in `__all__`; everything else may change with any version. Nothing is printed, stored in
globals, or imported before it is used. See docs/internals/python.md.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowdiff.lake import Lake as Lake
    from flowdiff.results import Analysis as Analysis
    from flowdiff.results import Flow as Flow
    from flowdiff.results import Imported as Imported
    from flowdiff.simulation import simulate as simulate
    from flowdiff.tables import Table as Table
    from flowdiff.times import Period as Period
    from flowdiff.times import Periods as Periods
    from schemas.errors import FlowdiffError as FlowdiffError

    __version__: str

__all__ = [
    "Analysis",
    "Flow",
    "FlowdiffError",
    "Imported",
    "Lake",
    "Period",
    "Periods",
    "Table",
    "__version__",
    "open",
    "simulate",
]

_PLACES: Final = {
    "Analysis": "flowdiff.results",
    "Flow": "flowdiff.results",
    "FlowdiffError": "schemas.errors",
    "Imported": "flowdiff.results",
    "Lake": "flowdiff.lake",
    "Period": "flowdiff.times",
    "Periods": "flowdiff.times",
    "Table": "flowdiff.tables",
    "simulate": "flowdiff.simulation",
}
"""Public name -> module that defines it, imported on first use."""


def __getattr__(name: str) -> object:
    """Import a public name on its first use. Raises AttributeError for other names."""
    if name == "__version__":
        from flowdiff.cli.version import version

        return version()
    if name not in _PLACES:
        raise AttributeError(f"module 'flowdiff' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def open(lake: str | PathLike[str], *, create: bool = False) -> Lake:
    """Open a lake by name: a folder, or s3://BUCKET/PREFIX. Raises LakeError if there is none.

    create: allow a missing lake, which the first import creates.
    """
    from flowdiff.lake import opened

    return opened(fspath(lake), create=create)
