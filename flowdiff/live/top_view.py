"""Scrape the metrics of a running `flowdiff ingest` or `watch`, and render them on a screen of 80 columns."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from queue import Empty, Queue
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schemas.errors import InputError
from schemas.masking import masked_address
from schemas.visible import visible

TIMEOUT_S: Final = 5.0
"""Time limit of a whole scrape, s, including a slow response."""
MAX_BYTES: Final = 32 * 2**20
"""Size limit of a metrics page, bytes; a partition takes about a kilobyte."""

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one scrape."""

    at_s: float
    """Time of the scrape, s, by a clock with any origin (differences between scrapes give rates)."""
    values: dict[str, dict[Labels, float]]
    """Sample name -> labels -> value."""

    def one(self, name: str) -> float | None:
        """Value of the sample `name` without labels; None if missing."""
        return self.values.get(name, {}).get(frozenset())

    def total(self, name: str) -> float:
        """Sum of the samples `name` over all labels; 0 without samples."""
        return sum(self.values.get(name, {}).values())

    def by(self, name: str, *labels: str) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield (values of `labels`, value) of every sample `name`; an absent label has the value ""."""
        for found, value in self.values.get(name, {}).items():
            labelled = dict(found)
            yield tuple(labelled.get(label, "") for label in labels), value


def metrics_url(text: str) -> str:
    """URL of the metrics page, from a URL or just `host:port`. Raises InputError."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise InputError(
            f"'{masked_address(text)}' is no address.", remedy="Write host:port, as in 127.0.0.1:9464."
        )
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


def scrape(url: str, at_s: float) -> Scrape:
    """Fetch the samples at `url`; at_s: current time, for `Scrape.at_s`. Raises InputError."""
    try:
        text = _page(url).decode("utf-8", "replace")
        values: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    except urllib.error.URLError as error:
        raise InputError(f"'{url}' does not answer: {error.reason}.", remedy="Is it running?") from error
    except OSError as error:
        raise InputError(f"'{url}' does not answer: {error}.", remedy="Is it running?") from error
    except HTTPException as error:
        # Other answers are reported by their first line, or by the kind of the error.
        raise InputError(
            f"'{url}' does not speak HTTP: {str(error).strip() or type(error).__name__}.",
            remedy="Check the address.",
        ) from error
    except ValueError as error:
        raise InputError(f"'{url}' does not serve metrics: {error}.", remedy="Check the address.") from error
    if "flowdiff_build_info" not in values:
        raise InputError(f"'{url}' is not a flowdiff.", remedy="Check the address.")
    return Scrape(at_s, values)


def _page(url: str) -> bytes:
    """Fetch the page at `url`, at most MAX_BYTES within TIMEOUT_S. Raises OSError, HTTPException,
    ValueError."""
    found: Queue[bytes | Exception] = Queue()

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                found.put(answer.read(MAX_BYTES))
        except (OSError, HTTPException, ValueError) as error:
            found.put(error)

    # A socket's time-out is per read: a byte now and then would block us for ever.
    Thread(target=ask, daemon=True).start()
    try:
        result = found.get(timeout=TIMEOUT_S)
    except Empty:
        raise TimeoutError("timed out") from None
    if isinstance(result, Exception):
        raise result
    return result


NONE: Final = "–"
"""Text of a missing value."""
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")


def view(url: str, now: Scrape, before: Scrape | None, *, rows: int | None = None) -> RenderableType:
    """Screen for the scrape `now` of `url`.

    before: earlier scrape, for rates; None: no rates. rows: maximum number of rows per table; None: no limit.
    """
    parts: list[RenderableType] = [_head(url, now)]
    if "flowdiff_ready" in now.values:
        parts += [_totals(now, before), Text(""), _lanes(now, rows), Text(""), _streams(now, before, rows)]
    if "flowdiff_watch_delay_seconds" in now.values:
        parts += [Text(""), _service(now, rows), Text(""), _incidents(now, rows)]
    return Group(*parts)


def _service(now: Scrape, rows: int | None) -> RenderableType:
    """Table of the watched service, one row per root type, by descending number of requests."""
    ok, failed = (
        {
            root: n
            for (root, reported), n in now.by("flowdiff_service_requests_total", "root", "status")
            if reported == status
        }
        for status in ("ok", "failed")
    )
    roots = sorted({*ok, *failed}, key=lambda root: (-ok.get(root, 0) - failed.get(root, 0), root))
    sums = dict(now.by("flowdiff_service_response_seconds_sum", "root"))
    cells = []
    for root in roots[:rows]:
        n = ok.get(root, 0) + failed.get(root, 0)
        mean = _seconds(sums.get((root,), 0) / n)
        quantiles = (_seconds(_quantile(now, root, share)) for share in (0.5, 0.95))
        cells.append([root, _amount(n), f"{failed.get(root, 0) / n:.1%}", mean, *quantiles])
    titles = ("root", "requests", "failed", "mean", "median <", "95 % <")
    return _table(titles, cells, len(roots), "root types")


def _quantile(now: Scrape, root: str, share: float) -> float:
    """Upper bound, s, of the histogram bucket that contains a quantile of a root type's response time.

    share: the quantile, in [0, 1]. Infinity if the quantile is in the last bucket, which has no upper bound.
    """
    name = "flowdiff_service_response_seconds_bucket"
    ends = sorted((float(end), n) for (of, end), n in now.by(name, "root", "le") if of == root)
    return next((end for end, n in ends if n >= share * ends[-1][1]), float("inf"))


def _incidents(now: Scrape, rows: int | None) -> RenderableType:
    labels = ("severity", "component", "operation", "kind", "id")
    found = sorted(shown for shown, _ in now.by("flowdiff_incident", *labels))
    if not found:
        return Text("no incident goes on", "green")
    lines = [
        Text(
            visible(f"{severity}: {component}/{operation} {kind}  flowdiff incidents show {id_}"), "bold red"
        )
        for severity, component, operation, kind, id_ in found[:rows]
    ]
    if rows is not None and len(found) > rows:
        lines.append(Text(f"and {len(found) - rows} more incidents"))
    return Group(*lines)


def _seconds(seconds: float) -> str:
    if seconds == float("inf"):
        return "∞"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _head(url: str, now: Scrape) -> Text:
    ((version,), _), *_ = now.by("flowdiff_build_info", "version")
    text = Text.assemble((f"flowdiff {visible(version)}", "bold"), f"  {visible(url)}  ")
    if "flowdiff_ready" not in now.values:
        return text.append(f"decided until {_time(now.total('flowdiff_watch_delay_seconds'))} ago")
    states = {state: int(count) for (state,), count in now.by("flowdiff_lanes", "state")}
    is_ready = now.one("flowdiff_ready") == 1
    text.append("ready" if is_ready else "NOT READY", "green" if is_ready else "bold red")
    if now.one("flowdiff_source_trouble"):
        text.append("  the log cannot be read", "bold red")
    if now.one("flowdiff_paused"):
        text.append("  reading waits", "yellow")
    text.append("\nlanes  " + ", ".join(f"{count} {state}" for state, count in states.items()))
    return text


def _totals(now: Scrape, before: Scrape | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    in_ = [
        ("messages", _amount(now.total("flowdiff_messages_total")), "flowdiff_messages_total", _amount),
        ("bytes", _size(now.total("flowdiff_message_bytes_total")), "flowdiff_message_bytes_total", _size),
        ("events", _amount(now.total("flowdiff_events_total")), "flowdiff_events_total", _amount),
    ]
    out = [
        ("published flows", "flowdiff_published_flows_total"),
        ("late events", "flowdiff_late_events_total"),
        ("rejected", "flowdiff_rejected_total"),
    ]
    for (name, total, metric, shown), (other, other_metric) in zip(in_, out, strict=True):
        speed = _rate(now, before, metric)
        table.add_row(
            name,
            total,
            NONE if speed is None else f"{shown(speed)}/s",
            other,
            _amount(now.total(other_metric)),
        )
    memory, budget = now.total("flowdiff_state_bytes"), now.one("flowdiff_memory_budget_bytes") or 0
    rss = now.one("process_resident_memory_bytes")
    table.add_row(
        "state",
        _size(memory),
        f"of {_size(budget)}",
        "resident memory",
        NONE if rss is None else _size(rss),
    )
    waiting, sealed = now.one("flowdiff_windows_to_build"), now.one("flowdiff_seal_delay_seconds")
    table.add_row(
        "windows to build",
        NONE if waiting is None else _amount(waiting),
        "cannot" if now.one("flowdiff_build_trouble") else "",
        "sealed",
        NONE if sealed is None else f"{_time(sealed)} ago",
    )
    return table


def _lanes(now: Scrape, rows: int | None) -> RenderableType:
    found = [
        {lane: value for (lane,), value in now.by(metric, "lane")} for metric, _ in _LANE_COLUMNS.values()
    ]
    lanes = sorted({lane for values in found for lane in values}, key=int)
    shown = [*zip(found, (shown for _, shown in _LANE_COLUMNS.values()), strict=True)]
    cells = [
        [lane, *(of(values[lane]) if lane in values else NONE for values, of in shown)]
        for lane in lanes[:rows]
    ]
    return _table(("lane", *_LANE_COLUMNS), cells, len(lanes), "lanes")


def _streams(now: Scrape, before: Scrape | None, rows: int | None) -> RenderableType:
    """Table of partitions, by descending lag. rows: maximum number of rows; None: no limit."""
    lags, positions, idle, read = (
        dict(now.by(f"flowdiff_{name}", "topic", "partition"))
        for name in ("lag_messages", "position", "idle", "messages_total")
    )
    earlier = {} if before is None else dict(before.by("flowdiff_messages_total", "topic", "partition"))
    streams = sorted(positions, key=lambda stream: (-lags.get(stream, 0), stream))
    cells = []
    for stream in streams[:rows]:
        speed = NONE
        if before is not None and now.at_s > before.at_s:
            speed = _amount((read.get(stream, 0) - earlier.get(stream, 0)) / (now.at_s - before.at_s))
        lag = _amount(lags[stream]) if stream in lags else NONE
        state = "idle" if idle.get(stream) else ""
        cells.append(["/".join(stream), lag, f"{positions[stream]:.0f}", speed, state])
    return _table(("partition", "lag", "offset", "messages/s", ""), cells, len(streams), "partitions")


def _table(titles: Sequence[str], cells: Sequence[Sequence[str]], n: int, what: str) -> RenderableType:
    """Table with the first column left-aligned and all others right-aligned.

    n: total number of rows; what: noun for them. If `cells` has fewer rows, a last line counts the missing
    ones.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(titles[0], overflow="ellipsis", no_wrap=True, max_width=38)
    for title in titles[1:]:
        table.add_column(title, justify="right")
    for name, *numbers in cells:
        table.add_row(Text(visible(name)), *numbers)
    return table if n <= len(cells) else Group(table, Text(f"and {n - len(cells)} more {what}"))


def _rate(now: Scrape, before: Scrape | None, metric: str) -> float | None:
    """Increase of `metric` per second between two scrapes; None without an earlier scrape, or if the process
    restarted in between."""
    if before is None or now.at_s <= before.at_s:
        return None
    grown = now.total(metric) - before.total(metric)
    return None if grown < 0 else grown / (now.at_s - before.at_s)


def _amount(value: float) -> str:
    for limit, unit in ((1e10, "G"), (1e7, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value * 10 / limit:.1f}{unit}"
    return f"{value:.0f}"


def _size(value: float) -> str:
    power = 0
    while value >= 1000 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.0f} B" if power == 0 else f"{value:.3g} {_SIZES[power]}"


def _time(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if abs(seconds) < 7200 else f"{seconds / 3600:.1f} h"


_LANE_COLUMNS: Final = {
    "state": ("flowdiff_state_bytes", _size),
    "watermark": ("flowdiff_watermark_delay_seconds", _time),
    "commit": ("flowdiff_commit_age_seconds", _time),
}
"""Title of a column of the table of lanes -> (name of the metric, format of its value)."""
