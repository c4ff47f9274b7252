"""Markers of variance, the user's judgement on its sources: read and apply them (VarianceFinder §3, §4.3).

A TOML file of the user, stored with the code it concerns:

    [[marker]]
    label = "sn/DISK_IO -> sn/DISK_DONE"      # an edge or a call site as reports print it; * and ? are wild
    kind = "intrinsic"                         # or intentional, or inadvertent
    owner = "storage"
    reason = "one disk a node; seeks take what they take"
    expires = 2027-03-01                       # optional; from that day on the marker does nothing

`intentional` and `intrinsic` sources are removed from the *residual*, so that a noisy disk does not hide the
code around it. An `inadvertent` one is listed first until its C² has fallen below 1. Markers are also
suggested from the names of trace points: printed, never applied.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analyze.population import Graph, Population
from analyze.profile.names import Names, PartName, edge_name, site_name
from analyze.profile.times import AllPathTimes
from schemas.arrays import B1, I8
from schemas.errors import ConfigError
from schemas.report.variance import MarkerKind, MarkerRow
from schemas.windows import NS_PER_SECOND

_RULES: Final = (
    (
        MarkerKind.INADVERTENT,
        "lock or queue: contention",
        re.compile(r"(?<![bc])lock|mutex|queue|wait|acquire|contend|retry", re.IGNORECASE),
    ),
    (
        MarkerKind.INTRINSIC,
        "device input or output",
        re.compile(r"disk|device|(?<![a-z])(dev|io|ssd|hdd|nvme)(?![a-z])|fsync|flush|sync_", re.IGNORECASE),
    ),
    (
        MarkerKind.INTENTIONAL,
        "a trade: cache, batch, scheduler or back-off",
        re.compile(r"cache|batch|schedul|back[_-]?off|throttl|prefetch|read[_-]?ahead", re.IGNORECASE),
    ),
)
"""Patterns of names that suggest a kind of source, in order of precedence: a wait for a cache's lock is a
lock, not a cache."""


class Marker(BaseModel):
    """Marker: an entry `[[marker]]` of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = Field(min_length=1)
    kind: MarkerKind
    owner: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    expires: date | None = None

    def is_expired(self, day: date) -> bool:
        """True if the marker has expired by `day` (UTC)."""
        return self.expires is not None and day >= self.expires

    def matches(self, text: str) -> bool:
        """True if the marker's pattern matches a label; a `→` in the pattern stands for `->`."""
        return fnmatchcase(text, self.label.replace("→", "->"))


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    marker: tuple[Marker, ...] = ()


def read_markers(path: Path) -> tuple[Marker, ...]:
    """Read the markers of a file. Raises ConfigError, naming the entry, if the file is not valid."""
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).marker
    except OSError as error:
        raise ConfigError(f"The markers '{path}' cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The markers '{path}' are no TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        raise ConfigError(
            f"The markers '{path}': {place}: {first['msg']}.",
            remedy="Each [[marker]] has label, kind, owner, reason, and may have expires.",
        ) from error


def day_of(end_ns: int) -> date:
    """Last day (UTC) of a period that ends at `end_ns`: a marker applies unless it has expired on that
    day."""
    return datetime.fromtimestamp(max(end_ns - 1, 0) // NS_PER_SECOND, UTC).date()


@dataclass(frozen=True)
class LabelRules:
    """Markers that are valid on a day, matched with the labels and call sites of a population."""

    markers: tuple[Marker, ...]
    day: date
    names: Names
    sites: tuple[tuple[MarkerRow, frozenset[int]], ...] = ()
    """Markers in the order of the file: (row for the report, indices of the matching call sites); filled by
    `marked_labels`."""

    @property
    def rows(self) -> tuple[MarkerRow, ...]:
        """Rows of all markers for the report, with their states."""
        return tuple(row for row, _ in self.sites)

    @cached_property
    def valid(self) -> tuple[Marker, ...]:
        """Markers that have not expired."""
        return tuple(marker for marker in self.markers if not marker.is_expired(self.day))

    @cached_property
    def accepted(self) -> tuple[Marker, ...]:
        """Valid markers of sources whose variance is accepted, i.e. intentional or intrinsic."""
        return tuple(m for m in self.valid if m.kind is not MarkerKind.INADVERTENT)

    def accepts(self, name: PartName) -> bool:
        """True if a marker in `accepted` matches the name of an edge or a call site."""
        return any(marker.matches(name.text) for marker in self.accepted)

    def unmarked(self, graph: Graph, site: I8) -> B1:
        """bool[edges]: True for edges of `graph` that no marker in `accepted` matches, nor their call sites.
        site: int64[edges] index of each edge's call site."""
        if not self.accepted:
            return np.ones(len(site), dtype=np.bool_)
        marked = [
            self.accepts(edge_name(graph, edge, code)) or self.accepts(site_name(code, self.names))
            for edge, code in enumerate(site.tolist())
        ]
        return ~np.array(marked, dtype=np.bool_)

    def marker_of(self, name: PartName) -> Marker | None:
        """First valid marker that matches a part, or the call site of an edge; None if there is none."""
        texts = [name.text]
        if name.src >= 0 and name.site >= 0:
            texts.append(site_name(name.site, self.names).text)
        return next((m for m in self.valid if any(m.matches(text) for text in texts)), None)

    def of_site(self, site: int) -> MarkerKind | None:
        """Kind of the first valid marker that matches a call site, or one of its edges; None if there is
        none."""
        return next((row.kind for row, mine in self.sites if row.state == "holds" and site in mine), None)


def marked_labels(population: Population, times: AllPathTimes, rules: LabelRules) -> LabelRules:
    """Determine the state of each marker: valid, expired, or matching nothing. O(edges · markers)."""
    if not rules.markers:
        return rules
    labels: dict[str, set[int]] = {}
    for category, mine in zip(population.categories, times.categories, strict=True):
        for edge, site in enumerate(mine.site.tolist()):
            labels.setdefault(edge_name(category.graph, edge, site).text, set()).add(site)
    for site in range(len(times.names.sites)):
        labels.setdefault(site_name(site, times.names).text, set()).add(site)
    return replace(rules, sites=tuple(_marker_state(marker, rules, labels) for marker in rules.markers))


def _marker_state(
    marker: Marker, rules: LabelRules, labels: dict[str, set[int]]
) -> tuple[MarkerRow, frozenset[int]]:
    meant = frozenset[int]().union(*(sites for text, sites in labels.items() if marker.matches(text)))
    row = MarkerRow(
        label=marker.label,
        kind=marker.kind,
        owner=marker.owner,
        reason=marker.reason,
        expires=None if marker.expires is None else marker.expires.isoformat(),
        state="expired" if marker.is_expired(rules.day) else "holds" if meant else "unused",
    )
    return row, meant


def suggested(name: PartName) -> tuple[MarkerKind, str] | None:
    """Suggest a marker for a part from its name (of an edge's ends, or of the callee): (kind of source,
    reason); None if unknown."""
    text = name.target or name.source
    return next(((kind, why) for kind, why, words in _RULES if words.search(text)), None)
