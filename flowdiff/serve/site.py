"""Site: the data and services that pages use: one lake, its state, its response times, queries, jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flowdiff.serve.fresh import Fresh
from flowdiff.serve.jobs.comparisons import JobComparisons
from flowdiff.serve.jobs.queue import Jobs
from flowdiff.serve.jobs.results import Results
from flowdiff.serve.kept import KeptPages
from flowdiff.serve.lake_state import Known, lake_identity, read_known
from flowdiff.serve.links import Links
from flowdiff.serve.proposals import Proposal, proposals
from flowdiff.serve.queries import Queries
from flowdiff.serve.settings import ServeSettings
from flowdiff.serve.shell import Shell, Tab
from flowdiff.serve.watched import Watched, read_watched
from flowdiff.serve.window_rows import ResponseRows, SiteRows
from schemas.windows import NS_PER_DAY
from stitch.lake.place import open_store


@dataclass(frozen=True, slots=True)
class Site:
    """All data and services that the pages of one served lake use. Must be closed."""

    lake: str
    settings: ServeSettings
    links: Links
    shell: Shell
    known: Fresh[Known]
    """State of the lake, cached for a few seconds."""
    watched: Fresh[Watched]
    """State of the lake's watch, cached for a few seconds."""
    queries: Queries
    proposals: Fresh[list[Proposal]]
    """Pairs of periods worth comparing, cached; the largest step of response times is searched in the last
    day only."""
    responses: ResponseRows
    sites: SiteRows
    jobs: Jobs
    pages: KeptPages
    """Cache of rendered reports."""
    sending: threading.BoundedSemaphore
    """Semaphore that limits the number of result files being written or sent."""
    clock_ns: Callable[[], int]

    def close(self) -> None:
        """End all threads and processes."""
        self.jobs.close()
        self.responses.close()
        self.sites.close()
        self.queries.close()


def open_site(
    lake: str,
    settings: ServeSettings,
    base_path: str,
    tabs: tuple[Tab, ...],
    cache: Path,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Site:
    """Open a lake, which need not exist yet. cache: folder for results of jobs, which several lakes may
    share.
    """
    links = Links(base_path)
    ages = settings.fresh_seconds, settings.stale_seconds
    known = Fresh(lambda: read_known(lake), *ages)
    watched = Fresh(lambda: read_watched(open_store(lake)), *ages)
    results = Results(
        cache / lake_identity(lake), settings.kept_jobs_bytes, settings.kept_jobs, settings.job_seconds
    )
    jobs = Jobs(lake, settings, results)
    waiting = threading.BoundedSemaphore(settings.comparing_queries)
    comparing = JobComparisons(known, jobs, settings.job_seconds, clock_ns, waiting)
    queries = Queries(lake, settings, clock_ns, comparing)
    # Call sites are read after all response times, which readers look at first.
    sites = SiteRows(known, queries, settings)
    responses = ResponseRows(known, queries, settings, lambda: sites.begin(known()))

    def proposed() -> list[Proposal]:
        there = known()
        if there.is_empty:
            return []
        end_ns = there.bounds_ns[1]
        return proposals(there, watched(), responses.between(end_ns - NS_PER_DAY, end_ns).rows)

    return Site(
        lake=lake,
        settings=settings,
        links=links,
        shell=Shell(lake.rstrip("/").rpartition("/")[2] or lake, links, tabs),
        known=known,
        watched=watched,
        queries=queries,
        proposals=Fresh(proposed, *ages),
        responses=responses,
        sites=sites,
        pages=KeptPages(settings.kept_pages_bytes),
        jobs=jobs,
        sending=threading.BoundedSemaphore(settings.results_sent),
        clock_ns=clock_ns,
    )
