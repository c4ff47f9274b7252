"""The report: a header and typed sections, the only input of every renderer.

The same input gives the same bytes. Version 3 added kinds and values to the reasons of a verdict; version 2
moved methods' results into sections. Older versions are not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, JsonValue, SerializeAsAny, ValidationInfo

from schemas.report.parts import ForeignSection, Frozen, Section
from schemas.report.picture import FlowPicture
from schemas.report.time_strip import TimeStrip

REPORT_VERSION: Final = 3
"""Version of the report model; incremented by every change to it."""

S = TypeVar("S", bound=Section)


class SampleSummary(Frozen):
    """One sample: its period, filter, and statistics of the flows that were tested."""

    name: str
    """Name of the sample: `reference`, `problem`, or as given by the analysis."""
    text: str
    """Period in the notation of the command line (UTC)."""
    start_ns: int
    end_ns: int
    """End of the sample, exclusive, ns since the epoch."""
    where: str
    """Filter expression that selects the requests of the sample; empty without a filter."""
    requests: int
    """Number of recorded flows that were tested."""
    weighted_requests: float
    """Sum of the flows' weights (1 / sampling probability)."""
    mean_us: float | None
    """Weighted mean response time, µs; None without requests."""
    median_us: float | None
    """Median of the response times as recorded, unweighted, µs; None without requests."""
    p99_us: float | None
    """99th percentile of the response times as recorded, unweighted, µs; None without requests."""
    total_us: float
    """Summed response time of the recorded flows, `requests` times `mean_us`, µs."""
    failed: int
    """Number of flows whose root did not end `ok`."""
    failed_share: float | None
    """Weighted share of failed flows; None without requests."""
    categories: int
    excluded: dict[str, int]
    """Quality flag -> number of flows excluded from every test."""


class PeriodChange(Frozen):
    """Change of the mean response time and of the load, from the first sample to the second."""

    mean0_us: float | None
    mean1_us: float | None
    delta_us: float | None
    delta_share: float | None
    """Change of the mean relative to the first sample, `delta_us` / `mean0_us`."""
    requests0: int
    requests1: int
    load_ratio: float | None
    """Weighted requests per second, problem / reference, each over the recorded part of its period (the rates
    of `AccountSection`); None if a period has fewer than two requests."""
    total_change_us: float
    """Change of the summed response time, requests1·mean1 - requests0·mean0, µs."""


class Headline(Frozen):
    """Summary at the top of the page."""

    sentence: str
    change: PeriodChange | None
    """Change between two samples; None unless there are exactly two."""


class Verdict(Frozen):
    """Conclusion of a method."""

    outcome: str
    """Outcome in one word, one of the method's fixed outcomes: `mutations`, `no-mutation`."""
    text: str
    """Outcome in one sentence."""


class MethodRun(Frozen):
    """One method of the report: its settings and verdict."""

    name: str
    title: str
    settings: dict[str, JsonValue]
    """Complete settings in force: with these and the lake the result can be reproduced."""
    verdict: Verdict


class Preparation(Frozen):
    """Preparation of the samples before the comparison."""

    level: str
    """Level of detail of the graphs. L0: every node; L3: component boundaries only."""
    refine: dict[str, str]
    """Refinement settings except `level`: name -> value as text; names of nested settings like
    `statistics.slow`."""


def _by_tag(value: Any, info: ValidationInfo) -> Any:
    """Parse a section with the model that the validation context has for its tag; as `ForeignSection` if the
    tag is unknown."""
    if not isinstance(value, dict):
        return value
    known: dict[str, type[Section]] = (info.context or {}).get("sections", {})
    return known.get(str(value.get("section")), ForeignSection).model_validate(value)


AnySection = Annotated[SerializeAsAny[Section], BeforeValidator(_by_tag)]


class Report(Frozen):
    """Results of one or several methods on the same samples."""

    schema_version: Literal[3] = REPORT_VERSION
    id: str
    """First 16 hex digits of the SHA-256 of everything but `id`, `source`, `trace_url`, `strip` and
    `picture`."""
    source: str
    """Name of the lake or lakes, for display."""
    trace_url: str = ""
    """Address of a request's trace, `{trace_id}` in place of its id."""
    preparation: Preparation | None
    """Preparation of the samples; None if they were not loaded from a lake."""
    samples: tuple[SampleSummary, ...]
    notes: tuple[str, ...]
    """Notes on data quality, one sentence each."""
    headline: Headline
    strip: TimeStrip | None = None
    """Course of both samples over time; None unless there are exactly two samples with requests loaded, and
    in reports of older versions."""
    picture: FlowPicture | None = None
    """Graph of the calls around the first findings; None without a finding, for methods without one, and in
    reports of older versions."""
    methods: tuple[MethodRun, ...]
    """Methods in the order in which they were requested; a gate uses the verdict of the first."""
    sections: tuple[AnySection, ...]
    """Sections of all methods in reading order."""

    @property
    def verdict(self) -> Verdict:
        """Verdict of the first method."""
        return self.methods[0].verdict

    def sample(self, name: str) -> SampleSummary:
        """Sample with a given name. Raises KeyError."""
        return {sample.name: sample for sample in self.samples}[name]

    def section(self, model: type[S], method: str | None = None) -> S:
        """First section of a given type, of any method or of `method`. Raises KeyError."""
        found = next(
            (
                section
                for section in self.sections
                if isinstance(section, model) and method in (None, section.method)
            ),
            None,
        )
        if found is None:
            raise KeyError(model.__name__)
        return found


_NOT_IN_ID: Final = {"id", "source", "trace_url", "strip", "picture"}


def content_id(report: Report) -> str:
    """Compute the id of a report from its content (see `Report.id`)."""
    plain = report.model_copy(update={"sections": tuple(section.content() for section in report.sections)})
    content = plain.model_dump_json(exclude=_NOT_IN_ID)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def with_id(report: Report) -> Report:
    """Copy of the report with its `id` filled in."""
    return report.model_copy(update={"id": content_id(report)})


def to_json(report: Report) -> str:
    """Serialize to versioned JSON, one value per line, newline at the end; byte-identical for equal
    reports."""
    return report.model_dump_json(indent=1) + "\n"


def from_json(text: str | bytes, sections: Iterable[type[Section]]) -> Report:
    """Parse the JSON that `to_json` writes: sections whose model is in `sections`, others as
    `ForeignSection`.

    Raises pydantic.ValidationError for another version, or JSON that is no report.
    """
    known = {model.model_fields["section"].default: model for model in sections}
    return Report.model_validate_json(text, context={"sections": known})
