"""A group: the changes that one finding tells of."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyze.methods.robust.changes import PATH_KINDS, TIME_KINDS, Change

_ONE_SIDED_95 = 1.645
PATH_WEIGHT = 0.3
"""What a change of a path in all requests ranks like: a change of the mean by this part (L.9 item 9)."""


@dataclass(slots=True)
class Group:
    """Changes that belong together; the first is the leading one."""

    lead: Change
    operation: int
    """Of the leading site."""
    component: str
    """To look at first."""
    changes: list[Change]
    score: float
    suspect: str = ""
    """Component after whose call requests were cut short, or whose calls fail."""
    follows: list[Change] = field(default_factory=list)
    """Changes among `changes` that are consequences of the lead."""
    leads: list[Change] = field(default_factory=list)
    """The same change elsewhere: on other hosts, in other loops, at other callers; without the lead."""
    hosts: tuple[str, ...] = ()
    """Hosts on which the lead is, where sites tell hosts apart; the leading site's first."""
    spared: tuple[str, ...] = ()
    """Hosts on which the same site was tested and is as before."""
    spared_sites: tuple[int, ...] = ()
    """Those sites."""

    def take(self, other: Group) -> None:
        """Let another group's changes follow from this one."""
        self.changes += other.changes
        self.follows += other.changes


def score_of(change: Change, mean_ns: float) -> float:
    """What a change is ranked by: its part of the mean, or its requests, as far as it is sure."""
    part = abs(change.contribution_ns) / max(mean_ns, 1.0)
    return sure_part(change) * max(part, PATH_WEIGHT * change.weight)


def sure_part(change: Change) -> float:
    """Lower 95 % bound of an effect over the effect (B.11)."""
    return max(1 - _ONE_SIDED_95 / max(abs(change.z), 1e-9), 0.0)


def part_ns(group: Group) -> float:
    """Part of the change of the mean, ns a request: times by site, of paths the leading site alone."""
    lead = group.lead
    if lead.kind in TIME_KINDS:
        sites = {change.site: change for change in group.changes if change.kind in TIME_KINDS}
        return sum(change.contribution_ns for change in sites.values())
    own = [change for change in group.changes if change.site == lead.site and change.kind in PATH_KINDS]
    return sum(change.contribution_ns for change in own)
