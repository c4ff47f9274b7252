"""What an analysis is: a method behind one port.

A method takes a population (one sample, two, or many), looks at nothing else, and gives typed sections for
people and complete tables for tools. It is one folder under `analyze.methods`, and all folders are laid out
alike: who knows one finds the way in the others.

    settings.py      what can be asked of it: one frozen model, whose fields are command-line options
    <name>_run.py    the work: `<name>_run` takes population and settings and gives all that was found;
                     the ideas that it is made of lie beside it, each in a file of its textbook name
    rows.py          what was found as rows of the report's models, and as complete tables
    sections.py      how a section is shown: on a page, on a terminal
    method.py        `analyse`, which puts run, rows, verdict and notes together, and `METHOD`

Where sections are many, each has a file of rows to itself (browsing), or rows and views lie together in the
folder `sections` (robust mode). Nothing else in flowdiff knows a method: the registry finds it, the command
line makes its options of its settings, the run calls it, and the report asks its sections' own renderers.
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
from schemas.report.report import Verdict

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Result:
    """What a method found."""

    settings: Config
    """The settings in force, what was left open decided."""
    verdict: Verdict
    sections: tuple[Section, ...]
    """In the order in which they are read. Bounded by the report's limits."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Complete, by name; deterministic order of rows."""
    headline: str = ""
    """What happened, in a sentence that tests support: the title of the report where the method is the first.
    Empty: the title says what was measured."""
    notes: tuple[str, ...] = ()
    """What a reader must know before trusting it, one sentence each."""
    weighed: Sequence[Weighed] = ()
    """Everything found, uncut: what a gate decides on."""


@dataclass(frozen=True, slots=True)
class SampleCount:
    """How many samples a method takes."""

    least: int
    most: int | None
    """None: any number."""

    def allows(self, n: int) -> bool:
        """Whether `n` samples will do."""
        return self.least <= n and (self.most is None or n <= self.most)

    @property
    def text(self) -> str:
        """`2 samples`, `1 to 2 samples`, `2 samples or more`."""
        if self.most is None:
            return f"{self.least} sample{'s' if self.least != 1 else ''} or more"
        if self.most == self.least:
            return f"{self.least} sample{'s' if self.least != 1 else ''}"
        return f"{self.least} to {self.most} samples"


@dataclass(frozen=True, slots=True)
class Method(Generic[C]):
    """An analysis as the registry, the command line and the report see it."""

    name: str
    """As the command line says it: `paper`."""
    title: str
    """As a page says it."""
    settings: type[C]
    """A frozen model with a default for every field; its fields are command-line options."""
    samples: SampleCount
    analyse: Callable[[ComparedSamples, ComparedSamples | None, C, ReportLimits], Result]
    """The work: pure, deterministic in its arguments. The second is samples of ordinary times, refined alike;
    of samples that are statistics there are no examples."""
    sections: tuple[SectionView[Any], ...]
    """Every type of section that it may give, and how each is shown."""
    kinds: tuple[str, ...] = ()
    """Kinds of what it weighs: words that a gate may ask for."""
    needs_requests: bool = True
    """Whether statistics that were kept of requests will not do."""


AnyMethod = Method[Any]


@dataclass(frozen=True, slots=True)
class Chosen(Generic[C]):
    """A method and the settings to run it with."""

    method: Method[C]
    settings: C
