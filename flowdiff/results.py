"""Results of the Python API: text in a prompt, a page in a notebook, files when saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiff.tables import Table
from schemas.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from analyze.report.gate import Outcome
    from analyze.sql.browse import StoredFlow
    from schemas.report.accounts import AccountSection
    from schemas.report.findings import Finding
    from schemas.report.parts import Section
    from schemas.report.report import Report, Verdict
    from stitch.drivers.import_settings import ImportSummary

WIDTH: Final = 100
"""Default width of a result's text, columns."""
FRAME: Final = "width:100%;height:640px;border:1px solid #ccc"


@dataclass(frozen=True, slots=True, repr=False)
class Analysis:
    """Result of a method: its report, and conversions to text, HTML, JSON and tables."""

    _outcome: Outcome
    _lake: str = field(default="")

    @property
    def report(self) -> Report:
        """The report, as in `report.json`."""
        return self._outcome.report

    @property
    def verdict(self) -> Verdict:
        """Verdict: `.outcome` is a word, `.text` a sentence."""
        return self.report.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings, most important first; empty for a method without findings."""
        from schemas.report.findings import FindingsSection

        found = (s.findings for s in self.report.sections if isinstance(s, FindingsSection))
        return next(found, ())

    @property
    def breakdown(self) -> AccountSection | None:
        """Breakdown of the change of the mean, of slow requests and of errors; None if there is none."""
        from schemas.report.accounts import AccountSection

        return next((s for s in self.report.sections if isinstance(s, AccountSection)), None)

    @property
    def sections(self) -> Mapping[str, Section]:
        """Section name -> section of the report, as in `report.json`."""
        return {section.section: section for section in self.report.sections}

    @property
    def tables(self) -> Mapping[str, Table]:
        """Table name -> table of the report, complete even where the report's lists are cut."""
        return {name: Table(table) for name, table in self._outcome.tables.items()}

    def html(self, *, trace_url: str | None = None) -> str:
        """Self-contained HTML page.

        trace_url: address that request ids link to, `https://jaeger.example/trace/{trace_id}`; None: the
        lake's. Raises ConfigError for an invalid one.
        """
        from analyze.report.page import render_html

        return render_html(self._linked(trace_url).report, self._outcome.views)

    def json(self) -> str:
        """Report as JSON."""
        from schemas.report.report import to_json

        return to_json(self.report)

    def text(self, width: int = WIDTH, *, whole: bool = True) -> str:
        """Report as shown in a terminal; whole: False for its first screen only."""
        from analyze.report.terminal import print_report
        from flowdiff.cli.terminal import drawn

        def show(console: Console) -> None:
            print_report(self.report, self._outcome.views, console, whole=whole)

        return drawn(show, width)

    def save(
        self,
        *,
        html: str | Path | None = None,
        json: str | Path | None = None,
        trace_url: str | None = None,
    ) -> None:
        """Write the page, the report's JSON, or both to files; trace_url: as in `html`.

        Raises InputError if a file cannot be written, ConfigError.
        """
        from flowdiff.cli.output import open_output

        linked = self._linked(trace_url)
        for path, text in ((html, linked.html), (json, linked.json)):
            if path is not None:
                with open_output(Path(path)) as out:
                    out.write(text().encode())

    def keep(self) -> str:
        """Store the report in the lake, as `flowdiff compare` does, so that SQL queries find it; return its
        path. Raises LakeError."""
        from analyze.report.page import INDEX_LINK, render_html
        from analyze.report.store import keep_report
        from stitch.lake.place import open_place

        page = render_html(self.report, self._outcome.views, index=INDEX_LINK)
        return keep_report(open_place(self._lake), self._outcome, page)

    def __repr__(self) -> str:
        return self.text(whole=False)

    def _linked(self, trace_url: str | None) -> Analysis:
        from flowdiff.analysing import with_trace_url

        if trace_url is None:
            return self
        return Analysis(with_trace_url(self._outcome, self._lake, trace_url), self._lake)

    def _repr_html_(self) -> str:
        # In the sandbox the page has its own origin, and reaches neither the notebook nor its session. An
        # untrusted notebook shows no frame, only the summary before it.
        found = "".join(f"<li>{escape(visible(finding.title))}</li>" for finding in self.findings)
        verdict = escape(visible(self.verdict.text))
        summary = f"<details><summary>{verdict}</summary><ol>{found}</ol></details>"
        page = escape(self.html(), quote=True)
        return f'{summary}<iframe sandbox="allow-scripts" style="{FRAME}" srcdoc="{page}"></iframe>'


@dataclass(frozen=True, slots=True, repr=False)
class Flow:
    """One request with its spans, nodes and parameters."""

    _stored: StoredFlow
    spans: Table
    """Spans of the request, as in the view `spans`; empty for a request of records."""
    nodes: Table
    """Nodes of the request, as in the view `nodes`."""

    @property
    def request_id(self) -> str:
        """Request or trace id."""
        return str(self._stored.flow["request_id"])

    @property
    def params(self) -> list[dict[str, Any]]:
        """Parameters of the request: position of the node, key, numeric or text value."""
        return self._stored.params

    def text(self, width: int = WIDTH) -> str:
        """Swim lanes of the request, as shown in a terminal."""
        from flowdiff.cli.flow_drawing import print_flow
        from flowdiff.cli.terminal import drawn

        return drawn(lambda console: print_flow(console, self._stored), width)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.1">{escape(self.text())}</pre>'


@dataclass(frozen=True, slots=True, repr=False)
class Imported:
    """Result of an import: its summary, and counts."""

    summary: ImportSummary

    @property
    def flows(self) -> int:
        """Number of imported requests."""
        return self.summary.counters.flows

    @property
    def rejected(self) -> Mapping[str, int]:
        """Reason -> number of rejected items; the items are in the view `dead_letters`."""
        return {str(reason): n for reason, n in self.summary.counters.rejects.items()}

    def __repr__(self) -> str:
        from flowdiff.importing import summary_rows

        return "\n".join(f"{name}: {count}" for name, count in summary_rows(self.summary))
