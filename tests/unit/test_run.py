"""The run: what it makes of any methods over any number of samples."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracles.paper_report import named
from oracles.populations import category, constant_chain, graph, population
from rich.console import Console

from analyze.compare import compare
from analyze.methods.paper.method import METHOD as PAPER
from analyze.methods.paper.settings import PaperSettings
from analyze.methods.port import AnyMethod, Chosen, Method, Result, SampleCount
from analyze.population import Population, Sample
from analyze.profile.samples import ComparedSamples
from analyze.refine.settings import RefineSettings, StatisticsSettings
from analyze.report.blocks import Part, Text
from analyze.report.limits import ReportLimits
from analyze.report.page import render_html
from analyze.report.section_view import SectionView, views_by_tag
from analyze.report.terminal import print_report
from schemas.config import Config
from schemas.errors import ConfigError
from schemas.report.accounts import VerdictSection
from schemas.report.parts import Section
from schemas.report.report import Verdict, to_json
from schemas.report.report_tables import REPORT_TABLES


class CountSettings(Config):
    """None."""


class CountSection(Section):
    section: Literal["count"] = "count"
    requests: int


VIEW = SectionView(CountSection, lambda s: (Part("Count", (Text(f"count {s.requests}"),), anchor="count"),))


def counting(name: str, samples: SampleCount, table: str = "counts") -> AnyMethod:
    """A method that counts requests, and those of the history."""

    def analyse(
        given: ComparedSamples, history: ComparedSamples | None, settings: CountSettings, _: ReportLimits
    ) -> Result:
        n, before = (
            0 if side is None else sum(category.n_requests for category in side.population.categories)
            for side in (given, history)
        )
        return Result(
            settings=settings,
            verdict=Verdict(outcome="counted", text=f"{n} requests, {before} before."),
            sections=(CountSection(requests=n),),
            tables={table: pa.table({"n": [n]})},
            notes=(f"Note of {name}.",),
        )

    return Method(name, name.title(), CountSettings, samples, analyse, (VIEW,))


ANY = SampleCount(1, None)


def sampled(n: int) -> Population:
    """Two requests a sample, of 1000 µs times its number from 1."""
    sample = np.repeat(np.arange(n), 2)
    offsets = np.stack([np.zeros(2 * n, np.int64), (sample + 1) * 1_000_000], axis=1)
    made = category(graph(["r", "s"]), offsets, sample)
    samples = tuple(Sample(f"s{i}", f"period {i}", i, i + 1) for i in range(n))
    excluded = {"CYCLE": tuple(range(n))}
    return population(made, samples=samples, excluded=excluded, notes=("Of the population.",))


def chosen(*methods: AnyMethod) -> list[Chosen[Config]]:
    return [Chosen(method, method.settings()) for method in methods]


@pytest.mark.parametrize(
    ("n", "sentence", "left_out", "tiles"),
    [
        (1, "2 requests, 1 ms on average.", [], "1 ms"),
        (
            2,
            "Mean response time 1 ms → 2 ms (+100 %).",
            ["0 requests of the s0, 1 of the s1 period."],
            "1 ms → 2 ms",
        ),
        (
            3,
            "6 requests in 3 samples.",
            ["0 requests of the s0, 1 of the s1, 2 of the s2 period."],
            "1 ms · 2 ms · 3 ms",
        ),
    ],
)
def test_a_report_of_any_number_of_samples(n: int, sentence: str, left_out: list[str], tiles: str):
    outcome = compare(sampled(n), chosen(counting("counting", ANY)))
    report = outcome.report
    assert [sample.mean_us for sample in report.samples] == [1000.0 * (i + 1) for i in range(n)]
    assert report.headline.sentence.replace("\u00a0", " ") == sentence
    assert (report.headline.change is not None) == (n == 2)
    notes = [f"Left out of every test as CYCLE: {words}" for words in left_out]
    assert report.notes == (*notes, "Note of counting.", "Of the population.")
    assert report.verdict.text == f"{2 * n} requests, 0 before."
    page = render_html(report, outcome.views)
    assert f"<p>count {2 * n}</p>" in page
    assert all(sample.text in page for sample in report.samples)
    means = re.search(r"<dt>Mean</dt><dd>(.*?)</dd>", page)
    assert means is not None
    assert re.sub(r"<.*?>", "", means[1]).replace("\u00a0", " ") == tiles
    out = StringIO()
    print_report(report, outcome.views, Console(file=out, width=100, color_system=None))
    assert f"count {2 * n}" in out.getvalue()
    assert all(sample.text in out.getvalue() for sample in report.samples)


def test_a_verdict_says_what_a_calibration_found():
    verdict = VerdictSection(
        outcome="unchanged",
        external=False,
        reasons=(),
        quality=(),
        visible=(),
        untested_requests=0,
        missing_requests=None,
        equivalent_share=None,
        calibration="",
    )

    def analyse(*_given: object) -> Result:
        return Result(CountSettings(), Verdict(outcome="unchanged", text="."), (verdict,))

    view = SectionView(VerdictSection, lambda _section: ())
    method = Method("sure", "Sure", CountSettings, ANY, analyse, (view,))
    (section,) = compare(sampled(2), chosen(method), calibration="None in 50.").report.sections
    assert section == verdict.model_copy(update={"method": "sure", "calibration": "None in 50."})


def test_methods_stand_in_a_report_in_the_order_asked_for():
    first, second = counting("first", ANY), counting("second", ANY, table="others")
    outcome = compare(sampled(1), chosen(second, first))
    assert [method.name for method in outcome.report.methods] == ["second", "first"]
    assert [section.method for section in outcome.report.sections] == ["second", "first"]
    assert [note for note in outcome.report.notes if "Note of" in note] == [
        "Note of second.",
        "Note of first.",
    ]
    assert sorted(outcome.tables) == ["counts", "others"]


def test_ids_of_the_page_are_there_once_where_methods_share_a_type_of_section():
    first, second = counting("first", ANY), counting("second", ANY, table="others")
    outcome = compare(sampled(1), chosen(first, second))
    page = render_html(outcome.report, outcome.views)
    assert page.count('id="count"') == page.count('id="count-2"') == 1
    assert page.index(">First</p>") < page.index('id="count"') < page.index(">Second</p>")


def test_mutations_of_two_methods_have_links_of_their_own():
    twin = replace(PAPER, name="twin", title="The same again")
    mutated = population(constant_chain(("a", "b"), 1, 90, 100, 100))
    outcome = compare(named(mutated, "before", "after"), chosen(PAPER, twin))
    page = render_html(outcome.report, outcome.views)
    ids = re.findall(r'\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {"m1", "m1-2"} <= set(ids)
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    single = compare(named(mutated, "before", "after"), chosen(PAPER))
    alone = render_html(single.report, single.views)
    assert 'id="m1"' in alone
    assert 'id="m1-2"' not in alone


def test_a_method_is_given_the_history():
    two = sampled(2)
    outcome = compare(two.of_samples(1, 2), chosen(counting("counting", ANY)), history=two.of_samples(0, 1))
    assert outcome.report.verdict.text == "2 requests, 2 before."
    assert [sample.name for sample in outcome.report.samples] == ["s1"]
    assert outcome.report.samples[0].excluded == {"CYCLE": 1}


@pytest.mark.parametrize(
    ("takes", "n", "words"),
    [
        (SampleCount(2, 2), 1, "takes 2 samples, and there are 1"),
        (SampleCount(1, 1), 2, "takes 1 sample, and there are 2"),
        (SampleCount(2, None), 1, "takes 2 samples or more, and there are 1"),
        (SampleCount(1, 2), 3, "takes 1 to 2 samples, and there are 3"),
    ],
)
def test_another_number_of_samples_is_refused(takes: SampleCount, n: int, words: str):
    with pytest.raises(ConfigError, match=words):
        compare(sampled(n), chosen(counting("counting", takes)))


def test_methods_share_a_table():
    outcome = compare(sampled(2), chosen(counting("first", ANY), counting("second", ANY)))
    assert outcome.tables["counts"].to_pylist() == [{"method": "first", "n": 4}, {"method": "second", "n": 4}]
    assert outcome.report.section(CountSection).method == "first"
    assert outcome.report.section(CountSection, "second").method == "second"
    with pytest.raises(KeyError, match="CountSection"):
        outcome.report.section(CountSection, "third")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"n": [1.0]}), "table 'counts' of method 'second' has other columns than that of 'first'"),
        (pa.table({"method": ["x"]}), "table 'counts' of method 'second' has a column 'method'"),
    ],
)
def test_unlike_tables_of_one_name_are_a_bug(table: pa.Table, words: str):
    first = counting("first", ANY)

    def other(*given: Any) -> Result:
        return replace(first.analyse(*given), tables={"counts": table})

    with pytest.raises(TypeError, match=words):
        compare(sampled(1), chosen(first, replace(first, name="second", analyse=other)))


def test_paper_mode_twice_keeps_all_rows_of_both():
    mutated = population(constant_chain(("a", "b"), 30, 300, 5, 9))
    alone = compare(mutated, chosen(PAPER)).tables
    both = compare(mutated, chosen(PAPER, replace(PAPER, name="robust"))).tables
    assert set(both) == set(alone)
    for name, table in both.items():
        for method in ("paper", "robust"):
            rows = table.filter(pc.equal(table["method"], method)).drop_columns("method")
            assert rows.equals(alone[name].drop_columns("method")), name
        if name in REPORT_TABLES:
            assert table.schema.equals(REPORT_TABLES[name], check_metadata=True)


def test_two_sections_do_not_share_a_tag():
    other = SectionView(CountSection, VIEW.blocks)
    assert views_by_tag([VIEW, VIEW]) == {"count": VIEW}
    with pytest.raises(ValueError, match="two sections are called 'count'"):
        views_by_tag([VIEW, other])


def test_a_section_without_a_renderer_is_a_bug():
    outcome = compare(sampled(1), chosen(counting("counting", ANY)))
    with pytest.raises(KeyError, match="count"):
        render_html(outcome.report, {})


def test_settings_in_force_are_in_the_report():
    calm = named(population(constant_chain(("a", "b"), 40, 40, 1000, 1000)))
    report = compare(
        calm, [Chosen(PAPER, PaperSettings(ranking="tr"))], refined=RefineSettings(level="L3")
    ).report
    assert report.methods[0].settings["distance"] == "normalized"
    assert set(report.methods[0].settings) == set(PaperSettings.model_fields)
    assert report.preparation is not None
    assert report.preparation.level == "L3"
    nested = {f"statistics.{name}" for name in StatisticsSettings.model_fields}
    assert (
        set(report.preparation.refine) == set(RefineSettings.model_fields) - {"level", "statistics"} | nested
    )
    assert report.preparation.refine["statistics.attributes"].startswith(
        "service.version, service.instance.id,"
    )
    other = compare(calm, [Chosen(PAPER, PaperSettings(ranking="tr"))], refined=RefineSettings()).report
    assert other.id != report.id


def test_the_id_is_of_what_was_compared():
    calm = population(constant_chain(("a", "b"), 40, 40, 1000, 1000))
    first, second = (compare(named(calm, "x", text), chosen(PAPER)).report for text in ("y", "z"))
    assert first.id != second.id
    assert to_json(compare(named(calm, "x", "y"), chosen(PAPER)).report) == to_json(first)


def test_parts_of_a_population_count_their_own_samples():
    three = sampled(3)
    last = three.of_samples(2, 3)
    (only,) = last.categories
    assert only.sample.tolist() == [0, 0]
    assert only.response_ns.tolist() == [3_000_000] * 2
    assert replace(last).samples == (three.samples[2],)
    assert last.params(0).num_rows == 0
