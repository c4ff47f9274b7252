"""Pages *Compare* and *Explore*: ask a method about periods; show the report, the progress of the job, or the
error.

A question's address is the address of its report: until the report exists, the page shows the form, with a
button that starts the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from analyze.methods.registry import method_names
from analyze.methods.robust.sections.paths import whole_paths
from analyze.report import wording
from analyze.report.blocks import Block, Column, Grid, Items, Part, Styled, Text, code, dim, tag
from flowdiff.cli.version import version
from flowdiff.extras import installed
from flowdiff.serve.answer import Answer, Asked, Moved, Reply, Whole
from flowdiff.serve.jobs.question import Question, asked_question, identity
from flowdiff.serve.jobs.queue import Job
from flowdiff.serve.report_pages import Stored, report_page, requests_link, result
from flowdiff.serve.site import Site
from schemas.errors import ConfigError, NotFoundError
from schemas.report.paths import PathsSection

REFRESH_SECONDS: Final = 1
_LISTED: Final = 10
"""Maximum number of jobs listed below the form."""
METHODS: Final = {
    "robust": "what changed, cause by cause",
    "paper": "what changed, as Spectroscope compares",
    "paths": "which whole paths requests take now, and took before",
    "browse": "look around in one period",
    "variance": "where response times vary",
    "clusters": "groups of requests that do the same",
    "distalyze": "what diverges between two classes of requests",
}
"""Analysis offered on pages -> its purpose; `paths` shows a part of the report of `robust`."""
_PATHS: Final = "paths"


def compare(site: Site, asked: Asked) -> Reply:
    """Show the report of a question, the progress of its job, or the form to ask it."""
    method = asked.chosen("method", offered())
    question = asked_question(run_by(method), asked.query, site.known(), site.clock_ns())
    if question is None:
        return _form(site, asked, method, None)
    key = identity(question, site.known(), version())
    if (found := result(site, key, question)) is not None:
        return _report(site, asked, found, method)
    job = site.jobs.get(key)
    if job is not None and job.state == "done":
        # The job ended after the lookup above, or its result was evicted.
        if (found := result(site, key, question)) is not None:
            return _report(site, asked, found, method)
        job = None
    if job is None:
        return _form(site, asked, method, question)
    return _form(site, asked, method, question, job) if job.is_over else _progress(site, job)


def start(site: Site, asked: Asked) -> Moved:
    """Start a job for a question, unless its report exists; redirect to the question's address."""
    method = asked.chosen("method", offered())
    question = asked_question(run_by(method), asked.query, site.known(), site.clock_ns())
    if question is None:
        raise ConfigError("Name the periods.", remedy="Write 2026-11-19/1d, START/END or 'last 1h'.")
    key = identity(question, site.known(), version())
    if site.jobs.results.read(key) is None:
        site.jobs.ask(key, question)
    return Moved(address(site, question, method))


def finished(site: Site, asked: Asked) -> Whole:
    """Show the report of the finished job that the address names."""
    found = result(site, asked.path["job"])
    if found is None:
        raise NotFoundError("That result is not kept any more.", remedy="Ask the question again.")
    return report_page(site, asked, found, "compare")


def cancel(site: Site, asked: Asked) -> Moved:
    """Cancel the job that the address names; redirect to the question's address."""
    job = site.jobs.get(asked.path["job"])
    if job is None:
        return Moved(site.links.to("compare"))
    site.jobs.cancel(job.key)
    return Moved(address(site, job.question))


def offered() -> tuple[str, ...]:
    """Names of the analyses whose method is installed, in the order of METHODS."""
    there = method_names()
    return tuple(name for name in METHODS if run_by(name) in there and installed(run_by(name)))


def run_by(name: str) -> str:
    """Name of the method that runs an analysis of METHODS."""
    return "robust" if name == _PATHS else name


def _report(site: Site, asked: Asked, found: Stored, method: str) -> Reply:
    """Page of a report; for analysis `paths`, only the report's section on whole paths."""
    if method != _PATHS:
        return report_page(site, asked, found, "compare")
    sections = [one for one in found.report.sections if isinstance(one, PathsSection)]
    if not sections:
        return Answer("Whole paths", (Text("These periods were compared by statistics: no path is known."),))
    before, after = (sample.text for sample in found.report.samples[:2])
    link = Styled("What changed between these periods", href=site.links.to("compare", **found.question))
    return Answer(
        "Whole paths",
        (Text(f"{before} → {after}", "strong"), Text(link), *whole_paths(sections[0])),
        data=sections[0],
        trace_url=requests_link(site.links, found),
    )


def address(site: Site, question: Question, analysis: str = "") -> str:
    """Address of a question's page.

    analysis: name in METHODS, if only a part of the method's report is to be shown.
    """
    part = {"method": analysis} if analysis == _PATHS else {}
    return site.links.to("compare", **(question.address | part))


def _form(site: Site, asked: Asked, method: str, question: Question | None, job: Job | None = None) -> Answer:
    values = _values(asked.query if question is None else question.parameters)
    blocks: list[Block] = []
    if job is not None:
        blocks.append(
            Text((tag(job.state, "worse"), " ", job.error or "It was cancelled.", f" {job.remedy}"), "strong")
        )
    pairs = site.proposals()
    if pairs:
        links = [
            (
                Styled(one.title, href=site.links.to("compare", **one.parameters)),
                dim(f" {one.reference} → {one.problem}"),
            )
            for one in pairs
        ]
        blocks.append(Part("Proposed", (Items(links),)))
    if jobs := site.jobs.latest()[:_LISTED]:
        columns = (
            Column(
                "",
                "Question",
                "text",
                lambda one: Styled(one.question.title, href=address(site, one.question)),
            ),
            Column("", "Method", "text", lambda one: one.question.method),
            Column("", "State", "text", lambda one: tag(one.state, "worse" if one.state == "failed" else "")),
            Column(
                "", "Took", "figure", lambda one: wording.duration(one.seconds * 1e6) if one.seconds else ""
            ),
        )
        blocks.append(Part("Latest questions", (Grid("Latest questions", columns, jobs),)))
    form = site.shell.rendered(
        "compare.html.jinja",
        values=values,
        method=method,
        methods=[(name, METHODS[name]) for name in offered()],
        is_asked=question is not None,
        again=job is not None,
    )
    return Answer(
        "Compare two periods" if method in ("robust", "paper", _PATHS) else f"Explore: {METHODS[method]}",
        blocks,
        above=form,
        data={
            "state": "not-asked" if job is None else job.state,
            "error": "" if job is None else job.error,
            "proposed": [{"title": one.title, **one.parameters} for one in pairs],
            "jobs": [{"question": one.question, "state": one.state} for one in jobs],
        },
    )


def _values(given: Mapping[str, Sequence[str] | str]) -> dict[str, str]:
    names = ("reference", "problem", "period", "history", "where", "reference_where", "problem_where")
    found = {}
    for name in names:
        value = given.get(name, "")
        found[name] = value if isinstance(value, str) else ", ".join(value)
    return found


def _progress(site: Site, job: Job) -> Answer:
    before = site.jobs.before(job.key)
    if job.state == "waiting":
        step = (
            f"It waits for {wording.counted(before, 'question')} before it."
            if before
            else "It begins at once."
        )
    else:
        step = job.step or "Starting"
    return Answer(
        "Computing",
        (
            Text(job.question.title, "strong"),
            Text((tag(job.state), f" {step} …")),
            Text(("Method: ", code(job.question.method)), "dim"),
        ),
        above=site.shell.rendered("cancel.html.jinja", job=job.key),
        data={"state": job.state, "step": job.step, "before": before, "job": job.key},
        refresh_seconds=REFRESH_SECONDS,
    )
