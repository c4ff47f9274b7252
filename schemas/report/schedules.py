"""Section `browse-schedules`: typical requests as train schedules (ALGORITHMS H.5). Times are µs."""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen
from schemas.report.section import Section


class ScheduleStep(Frozen):
    """A step inside a component."""

    name: str
    start_us: float
    end_us: float
    waited_us: float
    """Its own time that the response waited for."""


class ScheduleLane(Frozen):
    """One component."""

    component: str
    hosts: tuple[str, ...]
    """Where its work was done, of one request."""
    work_us: float
    """Its bars, added up where they do not lie over each other."""
    waited_us: float
    """Time on the critical path; over all lanes and messages the response time."""
    steps: tuple[ScheduleStep, ...]
    steps_total: int


class ScheduleBar(Frozen):
    """Work on a lane."""

    lane: int
    start_us: float
    end_us: float
    waited: bool
    """On the critical path."""


class ScheduleMessage(Frozen):
    """A call or a reply between two lanes; upright where its way took no recorded time."""

    source: int
    start_us: float
    target: int
    end_us: float
    waited: bool


class TrainSchedule(Frozen):
    """A request as a train schedule: time to the right, a lane a component (H.5)."""

    request_id: str | None
    """None: the mean of many."""
    response_us: float
    message_us: float
    """Part of the critical path that is messages."""
    lanes: tuple[ScheduleLane, ...]
    """In the order in which they are reached."""
    bars: tuple[ScheduleBar, ...]
    messages: tuple[ScheduleMessage, ...]
    cut: int
    """Bars and messages that are left out."""


class TypicalRequest(Frozen):
    """A category by its medoid and by its mean."""

    category: str
    root: str
    requests: int
    leads: tuple[str, ...]
    """Ranges that it stands for (`mode 2`, `the slowest`): the most frequent category of their most frequent
    root type."""
    share_of_time: float
    """Of the summed response time of the sample."""
    mean_us: float
    distance: float
    """Of the medoid: mean over edges of |ln of its latency over the median|."""
    medoid: TrainSchedule
    mean: TrainSchedule


class BrowseSchedulesSection(Section):
    """Typical requests."""

    section: Literal["browse-schedules"] = "browse-schedules"
    sample: str
    requests: tuple[TypicalRequest, ...]
