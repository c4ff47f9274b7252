"""Commands that examine a finding further: other methods, on its requests only.

Methods that are not installed are skipped: this module uses their names, not their modules.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from schemas.messages import is_message
from schemas.report.findings import (
    CALL_KINDS,
    ERROR_KINDS,
    ORDER_KINDS,
    PATH_KINDS,
    TIME_KINDS,
    ChangeKind,
    Finding,
    FindingsSection,
    FurtherView,
)
from schemas.visible import visible

if TYPE_CHECKING:
    from analyze.report.gate import Outcome
    from analyze.report.index import KeptReport
    from analyze.scope import LakePeriod

MOST_ROOTS: Final = 5
"""Maximum number of root types in the filter for a finding's requests."""
_TIMES: Final = TIME_KINDS | ORDER_KINDS
_PATHS: Final = PATH_KINDS | CALL_KINDS


_IN_DOUBLE: Final = frozenset('"$`\\!\n')
"""Characters that a shell treats specially inside double quotes."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A method that examines a finding further: its name, its purpose, and the kinds of change to which it
    applies."""

    method: str
    about: str
    kinds: frozenset[ChangeKind]


_WAYS: Final = (
    _Way("clusters", "paths of both periods laid over each other", _PATHS),
    _Way("variance", "which places became more variable", _TIMES),
    _Way("browse", "response times, typical requests, what happened when", frozenset(ChangeKind)),
    _Way("distalyze", "what else diverges, and where it began", frozenset(ChangeKind)),
)
"""Methods that examine findings further, most useful first."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The two samples of a comparison in the notation of the command line."""

    lake: str
    periods: Mapping[str, tuple[str, ...]]
    """`reference` and `problem` -> texts of the sample's periods."""
    where: Mapping[str, str]
    """`reference` and `problem` -> filter of the sample; empty text without a filter."""


def compared_of(samples: Sequence[tuple[str, Sequence[LakePeriod]]]) -> Compared | None:
    """Samples in the notation of the command line; None if that notation cannot express them: for samples
    other than reference and problem, several lakes, or unsealed windows."""
    if [name for name, _ in samples] != ["reference", "problem"]:
        return None
    parts = [part for _, found in samples for part in found]
    if any(part.unsealed for part in parts) or len({part.lake for part in parts}) != 1:
        return None
    filters = {
        name: {"" if part.period.where is None else part.period.where.text for part in found}
        for name, found in samples
    }
    if any(len(texts) != 1 for texts in filters.values()):
        return None
    return Compared(
        parts[0].lake,
        {name: tuple(part.period.text for part in found) for name, found in samples},
        {name: next(iter(texts)) for name, texts in filters.items()},
    )


def with_views(
    outcome: Outcome, compared: Compared | None, methods: Iterable[str], kept: Sequence[KeptReport] = ()
) -> Outcome:
    """Add to each finding the commands that examine it further; the report's id is unchanged.

    compared: the samples, None to add nothing; methods: names of the installed methods; kept: reports stored
    beside this one, whose pages are linked.
    """
    if compared is None:
        return outcome
    known = set(methods)
    ways = [way for way in _WAYS if way.method in known]
    texts = [sample.text for sample in outcome.report.samples]

    def viewed(section: FindingsSection) -> FindingsSection:
        found = tuple(
            finding.model_copy(update={"views": _views(finding, compared, ways, texts, kept)})
            for finding in section.findings
        )
        return section.model_copy(update={"findings": found})

    return _with_findings(outcome, viewed)


def shown_only(outcome: Outcome, only: Literal["", "worse"]) -> Outcome:
    """Show only findings `only` (`worse`: no improvements); the outcome retains all, and the report's id is
    unchanged.
    """
    return _with_findings(outcome, lambda section: section.model_copy(update={"only": only}))


def _with_findings(outcome: Outcome, change: Callable[[FindingsSection], FindingsSection]) -> Outcome:
    """Copy of the outcome with `change` applied to every section of findings."""
    sections = tuple(
        change(section) if isinstance(section, FindingsSection) else section
        for section in outcome.report.sections
    )
    return replace(outcome, report=outcome.report.model_copy(update={"sections": sections}))


def _views(
    finding: Finding,
    compared: Compared,
    ways: Sequence[_Way],
    texts: Sequence[str],
    kept: Sequence[KeptReport],
) -> tuple[FurtherView, ...]:
    narrow = requests_of(finding)
    found = [*_drawn(finding, compared.lake)]
    where = {name: _both(text, narrow) for name, text in compared.where.items()}
    for way in ways:
        if finding.kind not in way.kinds:
            continue
        arguments = (way.method, *_arguments(compared, where))
        found.append(
            FurtherView(
                method=way.method,
                about=way.about,
                arguments=arguments,
                command=shell_line(["flowdiff", *arguments]),
                page=_page(way.method, texts, where, kept),
            )
        )
    return tuple(found)


def _drawn(finding: Finding, lake: str) -> Iterator[FurtherView]:
    """Yield the suggestion to draw the first affected request (`flowdiff flow`); nothing if there is no such
    request."""
    example = next((one for one in finding.examples if one.sample == "problem"), None)
    if example is not None and _can_be_copied(example.request_id):
        arguments = ("flow", example.request_id, "--lake", lake)
        yield FurtherView(
            method="flow",
            about="an affected request, step by step",
            arguments=arguments,
            command=shell_line(["flowdiff", *arguments]),
        )


def shell_line(words: Sequence[str]) -> str:
    """Join words to a line for a POSIX shell. A word with single quotes (a filter) is double-quoted where
    possible, to be readable.
    """
    return " ".join(
        f'"{word}"' if "'" in word and not _IN_DOUBLE & set(word) else shlex.quote(word) for word in words
    )


def _arguments(compared: Compared, where: Mapping[str, str]) -> tuple[str, ...]:
    given = ["--lake", compared.lake]
    for name in ("reference", "problem"):
        for text in compared.periods[name]:
            given += [f"--{name}", text]
    if where["reference"] == where["problem"]:
        return (*given, "--where", where["problem"]) if where["problem"] else tuple(given)
    for name in ("reference", "problem"):
        if where[name]:
            given += [f"--{name}-where", where[name]]
    return tuple(given)


def requests_of(finding: Finding) -> str:
    """Filter that selects a finding's requests in both periods, as exactly as possible; empty: all requests.

    Selects by root type; for a change of times or errors also by the component, if both periods have it.
    Names with characters that a terminal alters are left out, as they cannot be copied.
    """
    parts = []
    roots = sorted({member.root for member in finding.members})
    # Filters know the work started by a message only as part of the sending request.
    all_known = len(finding.members) == finding.members_total and not any(map(is_message, roots))
    if all_known and 0 < len(roots) <= MOST_ROOTS and all(map(_can_be_copied, roots)):
        quoted = [_quoted(root) for root in roots]
        parts.append(f"root = {quoted[0]}" if len(quoted) == 1 else f"root in ({', '.join(quoted)})")
    component = _component(finding)
    # A component's name may be preceded by a host, which filters do not know.
    if "/" not in component and _can_be_copied(component):
        parts.append(f"component = {_quoted(component)}")
    return " and ".join(parts)


def _component(finding: Finding) -> str:
    """Component by which to filter a finding's requests, present in both periods; empty: no filter by
    component.

    For a slower call the callee, since the caller may take part in every request. A failing call may not
    reach its callee.
    """
    _, _, callee = finding.site.operation.partition(" -> ")
    if finding.kind in _TIMES and callee and "+" not in callee:
        return callee
    return finding.site.component if finding.kind in _TIMES | ERROR_KINDS else ""


def _can_be_copied(name: str) -> bool:
    return bool(name) and visible(name) == name


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _both(one: str, other: str) -> str:
    return " and ".join(part for part in (one, other) if part)


def _page(
    method: str, texts: Sequence[str], where: Mapping[str, str], kept: Sequence[KeptReport]
) -> str | None:
    """Address, relative to the report's page, of a stored report of `method` on the same samples; None if
    there is none.

    texts, where: periods and filters of the samples.
    """
    from analyze.report.index import periods_text

    wanted = periods_text(zip(texts, (where["reference"], where["problem"]), strict=True))
    same = (row.id for row in kept if (row.method, row.periods) == (method, wanted))
    return next((f"../{id_}/report.html" for id_ in same), None)
