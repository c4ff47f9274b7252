"""Settings of `flowdiff serve`."""

from __future__ import annotations

from pydantic import Field, field_validator

from schemas.config import Config
from schemas.sizes import parse_size


class ServeSettings(Config):
    """Limits of the server; each names what happens at its bound."""

    most_body_bytes: int = Field(default=64 * 1024, ge=1024)
    """Maximum size of a request's body; a larger one is refused (413)."""
    most_connections: int = Field(default=512, ge=8)
    """Maximum number of connections; a further request is refused (503) until others end."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Time limit for the head of a request, and again for its body; then the connection is closed."""
    send_seconds: float = Field(default=60.0, gt=0)
    """Time in which a client must accept what is sent (64 kB of a file, or a page); then the connection is
    cut.
    """
    keep_alive_seconds: int = Field(default=15, ge=1)
    """Time after which an idle connection is closed."""
    stop_seconds: int = Field(default=10, ge=1)
    """Time that requests in progress get when the server stops; then they are cut."""
    threads: int = Field(default=16, ge=1)
    """Number of pages rendered at once; others wait."""
    fresh_seconds: float = Field(default=2.0, ge=0)
    """Age at which what is known of the lake is read again, and lists and timelines are drawn again; 0: at
    each request.
    """
    shared_answers_bytes: int = Field(default=16 * 1024 * 1024, ge=0)
    """Memory for lists and timelines shared between readers while they are fresh; the oldest are dropped
    first.
    """
    stale_seconds: float = Field(default=5.0, ge=0)
    """Age beyond `fresh_seconds` from which a page waits for the new reading, for at most as long again:
    nobody may have looked for an hour, and a bucket may not answer.
    """
    most_windows: int = Field(default=10_000, ge=1)
    """Number of latest windows whose response times by root type are kept in memory; older ones are not
    drawn.
    """
    most_site_rows: int = Field(default=1_000_000, ge=1)
    """Maximum number of call site rows kept in memory, one per site and window (80 MB), of the latest
    windows: timelines of call sites begin there.
    """
    summed_windows: int = Field(default=288, ge=1)
    """Maximum number of windows whose response times are read by one query; the latest are read first."""
    summed_requests: int = Field(default=10_000, ge=1)
    """Maximum number of requests of such a query, unless a single window has more: without kept statistics
    each request takes a third of a millisecond.
    """
    query_memory: str = "1GB"
    """Memory limit of a query, beyond which it fails."""
    query_seconds: float = Field(default=30.0, gt=0)
    """Time limit of a query, after which its process is killed."""
    queries: int = Field(default=4, ge=1)
    """Number of queries computed at once."""
    comparing_queries: int = Field(default=2, ge=1)
    """Maximum number of queries that may wait for a comparison (`compare(...)`) at once; a further one is
    refused. Fewer than `queries` leave room for others, as a comparison may take `job_seconds`.
    """
    query_wait_seconds: float = Field(default=10.0, gt=0)
    """Maximum time that a query waits for others; then it is refused (503)."""
    shown_rows: int = Field(default=200, ge=1)
    """Maximum number of rows of a query's result on a page; the downloaded file has all."""
    most_result_bytes: int = Field(default=256 * 1024 * 1024, ge=1024)
    """Maximum size of the file with a query's result; a larger result is refused."""
    results_sent: int = Field(default=8, ge=1)
    """Maximum number of result files written or sent at once, each on disk meanwhile; a further one is
    refused (503).
    """
    jobs: int = Field(default=2, ge=1)
    """Number of comparisons computed at once; others wait in the queue."""
    queued_jobs: int = Field(default=8, ge=0)
    """Maximum number of waiting comparisons; a further one is refused (503)."""
    job_seconds: float = Field(default=900.0, gt=0)
    """Time limit of a comparison, after which its process is killed."""
    job_memory: str = "4GB"
    """Memory limit of a comparison's processes together, beyond which they are killed."""
    job_check_seconds: float = Field(default=0.5, gt=0)
    """Interval at which a comparison's time and memory are checked."""
    job_log_characters: int = Field(default=20_000, ge=0)
    """Number of last characters of a crashed comparison's output that are logged."""
    remembered_jobs: int = Field(default=200, ge=1)
    """Number of comparisons whose state is remembered; the oldest finished ones are forgotten first."""
    job_nice: int = Field(default=5, ge=0, le=19)
    """Niceness of a comparison's process, so that pages come first."""
    kept_jobs_bytes: int = Field(default=1024 * 1024 * 1024, ge=1024)
    """Size of the results of comparisons, with their tables, that are kept; those not asked for longest give
    way."""
    kept_jobs: int = Field(default=2_000, ge=1)
    """Number of such results that are kept: they are counted after every comparison."""
    kept_pages_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    """Memory for rendered reports; the least recently requested are dropped first."""
    listed: int = Field(default=200, ge=1)
    """Maximum length of a list of reports or incidents on a page; the rest is on the next page."""

    @field_validator("query_memory", "job_memory")
    @classmethod
    def _is_size(cls, text: str) -> str:
        if parse_size(text) is None:
            raise ValueError("write a size: 512MB, 2GB")
        return text

    @property
    def job_memory_bytes(self) -> int:
        """`job_memory` as a number of bytes."""
        return parse_size(self.job_memory) or 0
