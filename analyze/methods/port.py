"""Interface of analysis methods.

A method takes a population (one sample, two, or many) and nothing else, and returns typed sections for people
and complete tables for tools. It is one folder under `analyze.methods`, and all folders have the same layout:

    settings.py      one frozen model of all options; its fields are command-line options
    <name>_run.py    the work: `<name>_run` takes population and settings and returns all results; the
                     algorithms it uses are beside it, each in a file of its textbook name
    rows.py          results as rows of the report's models, and as complete tables
    sections.py      views of a section: on a page, on a terminal
    method.py        `analyse`, which puts run, rows, verdict and notes together, and `METHOD`

If sections are many, each has its own file of rows (browsing), or rows and views are together in the folder
`sections` (robust mode). Nothing else in flowdiff knows a particular method: the registry finds it, the
command line makes options of its settings, the run calls it, and the report asks its sections' own renderers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from analyze.profile.samples import ComparedSamples
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from analyze.report.section_view import SectionView
from schemas.config import Config
from schemas.report.parts import Section
from schemas.report.picture import FlowPicture
from schemas.report.report import Verdict

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a method: sections for people, tables for tools."""

    settings: Config
    """Settings with which the method ran, including defaults that were chosen from the data."""
    verdict: Verdict
    sections: tuple[Section, ...]
    """Sections of the report in reading order, bounded by the report's limits."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Complete tables by name; their rows have a deterministic order."""
    headline: str = ""
    """Main result in one sentence that tests support, shown as the report's title if this is the report's
    first method. Empty: the title states the measured means."""
    notes: tuple[str, ...] = ()
    """Caveats that readers must know before they trust the result, one sentence each."""
    picture: FlowPicture | None = None
    """Graph of the calls around the first findings; None for methods without one."""
    weighed: Sequence[Weighed] = ()
    """All results, not cut: a gate decides on these."""


@dataclass(frozen=True, slots=True)
class SampleCount:
    """Number of samples that a method takes, as a range."""

    least: int
    most: int | None
    """Maximum number of samples; None: no upper limit."""

    def allows(self, n: int) -> bool:
        """True if `n` samples are within the range."""
        return self.least <= n and (self.most is None or n <= self.most)

    @property
    def text(self) -> str:
        """Text of the range: `2 samples`, `1 to 2 samples`, `2 samples or more`."""
        if self.most is None:
            return f"{self.least} sample{'s' if self.least != 1 else ''} or more"
        if self.most == self.least:
            return f"{self.least} sample{'s' if self.least != 1 else ''}"
        return f"{self.least} to {self.most} samples"


@dataclass(frozen=True, slots=True)
class Method(Generic[C]):
    """Analysis method as an entry of the registry; the command line and the report know it only in this
    form."""

    name: str
    """Name of the method on the command line, e.g. `paper`."""
    title: str
    """Title of the method on a page."""
    settings: type[C]
    """Class of the settings: a frozen model with a default for every field; fields are command-line
    options."""
    samples: SampleCount
    analyse: Callable[[ComparedSamples, ComparedSamples | None, C, ReportLimits], Result]
    """Function that runs the analysis: (samples, samples of normal times or None, settings, limits) ->
    result.

    Pure and deterministic. The samples of normal times are refined together with the others; samples that are
    stored statistics have no requests.
    """
    sections: tuple[SectionView[Any], ...]
    """Views of every type of section that the method may return."""
    kinds: tuple[str, ...] = ()
    """Kinds of the results in `Result.weighed`, by which a gate may select."""
    needs_requests: bool = True
    """True if the method needs requests and cannot work on stored statistics."""


AnyMethod = Method[Any]


@dataclass(frozen=True, slots=True)
class Chosen(Generic[C]):
    """Method and the settings to run it with."""

    method: Method[C]
    settings: C
