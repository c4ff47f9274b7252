"""Settings of `flowdiff serve`."""

from __future__ import annotations

from pydantic import Field, field_validator

from schemas.config import Config
from schemas.sizes import parse_size


class ServeSettings(Config):
    """Limits of the server; each names what happens at its bound."""

    most_body_bytes: int = Field(default=64 * 1024, ge=1024)
    """Largest body of a request; a larger one is refused (413)."""
    most_connections: int = Field(default=512, ge=8)
    """Connections at once; further requests are refused (503) until others end."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Time for a connection to send the head of a request, and again for its body; then it is closed."""
    send_seconds: float = Field(default=60.0, gt=0)
    """Time in which a reader must take what waits for it (64 kB of a file, or a page); then it is cut off."""
    keep_alive_seconds: int = Field(default=15, ge=1)
    """Time that an idle connection is kept."""
    stop_seconds: int = Field(default=10, ge=1)
    """Time that running requests get at the end of the server; then they are cut."""
    threads: int = Field(default=16, ge=1)
    """Pages made at once; others wait."""
    fresh_seconds: float = Field(default=2.0, ge=0)
    """Age at which what is known of the lake is read again, and lists and timelines are drawn again; 0: they
    always are.
    """
    shared_answers_bytes: int = Field(default=16 * 1024 * 1024, ge=0)
    """Memory for lists and timelines that readers share meanwhile; the oldest give way."""
    stale_seconds: float = Field(default=5.0, ge=0)
    """Time after that from which a page waits for the new reading, as long at most: nobody may have looked
    for an hour, and a bucket may not answer.
    """
    most_windows: int = Field(default=10_000, ge=1)
    """Latest windows of which response times by root are kept in memory; older ones are not drawn."""
    most_site_rows: int = Field(default=1_000_000, ge=1)
    """Rows of call sites, one a site and window, that are kept in memory (80 MB), of the latest windows:
    timelines of call sites begin there.
    """
    summed_windows: int = Field(default=288, ge=1)
    """Windows whose response times are read by one query, at most; the latest come first."""
    summed_requests: int = Field(default=10_000, ge=1)
    """Requests of such a query, at most, but for those of one window: without kept statistics each takes a
    third of a millisecond.
    """
    query_memory: str = "1GB"
    """Memory limit of a query, by which it fails."""
    query_seconds: float = Field(default=30.0, gt=0)
    """Time limit of a query, after which its process is killed."""
    queries: int = Field(default=4, ge=1)
    """Queries computed at once."""
    comparing_queries: int = Field(default=2, ge=1)
    """Queries that wait for comparisons at once, of these: as a comparison may take `job_seconds`, fewer than
    `queries` leave room for pages and other queries; a further one is refused.
    """
    query_wait_seconds: float = Field(default=10.0, gt=0)
    """Time that a query waits for others; then it is refused (503)."""
    shown_rows: int = Field(default=200, ge=1)
    """Rows of a query's result on a page; a file has all."""
    most_result_bytes: int = Field(default=256 * 1024 * 1024, ge=1024)
    """Largest file of a query's result; a larger one is refused."""
    results_sent: int = Field(default=8, ge=1)
    """Files of results written or sent at once, on disk meanwhile; a further one is refused (503)."""
    jobs: int = Field(default=2, ge=1)
    """Comparisons computed at once; others wait in the queue."""
    queued_jobs: int = Field(default=8, ge=0)
    """Comparisons that wait, at most; a further one is refused (503)."""
    job_seconds: float = Field(default=900.0, gt=0)
    """Time limit of a comparison, after which its process is killed."""
    job_memory: str = "4GB"
    """Memory that a comparison's processes may take together, beyond which they are killed."""
    job_check_seconds: float = Field(default=0.5, gt=0)
    """Time between two looks at a comparison's time and memory."""
    job_log_characters: int = Field(default=20_000, ge=0)
    """Last characters of what a comparison that crashed said, for the log."""
    remembered_jobs: int = Field(default=200, ge=1)
    """Comparisons whose state is known; the oldest that ended are forgotten."""
    job_nice: int = Field(default=5, ge=0, le=19)
    """Niceness of a comparison's process: pages come first."""
    kept_jobs_bytes: int = Field(default=1024 * 1024 * 1024, ge=1024)
    """Size of the results of comparisons, with their tables, that are kept; those not asked for longest give
    way."""
    kept_pages_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    """Memory for drawn reports; those not asked for longest give way."""
    listed: int = Field(default=200, ge=1)
    """Longest list on a page, of reports or incidents; the rest is on the next page."""

    @field_validator("query_memory", "job_memory")
    @classmethod
    def _is_size(cls, text: str) -> str:
        if parse_size(text) is None:
            raise ValueError("write a size: 512MB, 2GB")
        return text

    @property
    def job_memory_bytes(self) -> int:
        """`job_memory` in bytes."""
        return parse_size(self.job_memory) or 0
