"""Comparisons requested by SQL queries (`compare(...)`, `breakdown(...)`), run as jobs like the comparisons
of pages.

So they have a job's limits of time and memory, wait in the same queue, and an existing result is reused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from analyze.sql.asked_comparison import AskedComparison
from flowdiff.cli.version import version
from flowdiff.query_comparisons import with_findings
from flowdiff.serve.jobs.question import asked_question, identity
from flowdiff.serve.jobs.queue import Jobs
from flowdiff.serve.lake_state import Known
from schemas.errors import PeriodError, QueryError


@dataclass(frozen=True, slots=True)
class JobComparisons:
    """Runs, as jobs, the comparisons of periods of the served lake that SQL queries request."""

    known: Callable[[], Known]
    jobs: Jobs
    seconds: float
    """Time limit of a comparison, s: waiting in the queue and running together."""
    clock_ns: Callable[[], int]
    waiting: threading.BoundedSemaphore
    """Semaphore that limits the number of queries waiting for a comparison."""

    def __call__(self, asked: AskedComparison) -> Mapping[str, pa.Table]:
        """Return the tables of a comparison by name; run a job unless the result exists.

        Raises FlowdiffError.
        """
        with_findings(asked.method)
        given = {
            "reference": [asked.reference],
            "problem": [asked.problem],
            "history": [asked.history or ""],
            "where": [asked.where or ""],
            "reference_where": [asked.reference_where or ""],
            "problem_where": [asked.problem_where or ""],
        }
        known = self.known()
        question = asked_question(asked.method, given, known, self.clock_ns())
        if question is None:
            raise PeriodError("A comparison has two periods.", remedy="Write compare('last 1h', 'today').")
        key = identity(question, known, version())
        if found := self.jobs.results.tables(key):
            return found
        if not self.waiting.acquire(blocking=False):
            raise QueryError("Too many queries wait for comparisons.", remedy="Try again when they are done.")
        try:
            self.jobs.ask(key, question)
            job = self.jobs.wait(key, self.seconds, asked.is_wanted)
        finally:
            self.waiting.release()
        if found := self.jobs.results.tables(key):
            return found
        if job is None or not job.is_over:
            raise QueryError("The comparison is not done in time.", remedy="Take shorter periods.")
        raise QueryError(job.error or f"The comparison was {job.state}.", remedy=job.remedy)
