"""The example of the paper: a striped READ whose queue is long because the disk behind it is."""

from __future__ import annotations

import re
from io import StringIO

import numpy as np
import pytest
from oracles.page_reader import assert_inert
from oracles.populations import category, graph, population
from oracles.striped_reads import DISK, QUEUE, reads
from rich.console import Console

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.variance import sections as variance_words
from analyze.methods.variance.markers import Marker
from analyze.methods.variance.method import METHOD, _verdict, variance_result
from analyze.methods.variance.settings import VarianceSettings
from analyze.population import Population, Sample
from analyze.report.gate import Outcome
from analyze.report.limits import ReportLimits
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from schemas.errors import ConfigError
from schemas.report.parts import Section
from schemas.report.report import from_json, to_json
from schemas.report.variance import (
    MarkerKind,
    VarianceChangeSection,
    VarianceDetailsSection,
    VarianceSection,
)

SECTIONS: tuple[type[Section], ...] = (VarianceSection, VarianceDetailsSection, VarianceChangeSection)


def sections(
    found: Population, *markers: Marker, **settings: object
) -> tuple[VarianceSection, VarianceDetailsSection]:
    """Both tiers of one sample."""
    asked = VarianceSettings.model_validate(settings)
    tier1, tier2 = variance_result(found, markers, asked, ReportLimits()).sections
    assert isinstance(tier1, VarianceSection)
    assert isinstance(tier2, VarianceDetailsSection)
    return tier1, tier2


def marker(label: str, kind: MarkerKind = MarkerKind.INTRINSIC) -> Marker:
    return Marker(label=label, kind=kind, owner="storage", reason="as it is")


def outcome(found: Population, **settings: object) -> Outcome:
    asked = VarianceSettings.model_validate(settings)
    return compare(found, [Chosen(METHOD, asked)])


def test_categories_are_ranked_by_c2_as_in_the_paper() -> None:
    tier1, _ = sections(reads(), sort="c2")
    assert [row.c2 is not None and row.c2 > 1 for row in tier1.categories] == [True, False]
    assert tier1.categories[0].canonical.startswith("nfs/READ_CALL nfs/CACHE_MISS")
    (curve,) = tier1.curves
    assert (curve.categories, curve.below_one) == (2, 0.5)
    assert curve.points[-1] == (tier1.categories[0].c2, 1.0)


def test_the_highest_variance_edges_are_the_disk_and_its_queue() -> None:
    tier1, tier2 = sections(reads())
    first = tier2.details[0]
    assert [edge.label for edge in first.edges[:2]] == [DISK, QUEUE]
    assert first.edges[0].highest
    assert first.edges[1].highest
    assert sum(edge.share for edge in first.edges) == pytest.approx(1, abs=1e-9)
    assert [site.label for site in tier1.sites[:2]] == [DISK, QUEUE]


def test_the_queue_is_told_to_inherit_from_the_disk_behind_it() -> None:
    """VF §4.3: an edge spanning a queue may vary because the component to which it sends data does."""
    _, tier2 = sections(reads())
    disk, queue = tier2.details[0].edges[:2]
    assert queue.inherits == disk.number
    assert disk.inherits is None
    pair = tier2.details[0].pairs[0]
    assert (pair.one, pair.other) == (1, 2)
    assert pair.rho > 0.7
    assert pair.covariance_us2 > 0


def test_an_edge_that_merges_behaviours_is_told_with_the_parameter_that_parts_them() -> None:
    """VF §4.3: extra trace points where dissimilar behaviours are merged; a parameter may be there."""
    _, told = sections(reads())
    _, silent = sections(reads(told=False))
    assert [advice.label for advice in told.advice] == [DISK, QUEUE]
    for advice in (told.advice[0], silent.advice[0]):
        assert advice.low_us == pytest.approx(900, rel=0.1)
        assert advice.high_us == pytest.approx(9_000, rel=0.1)
        assert advice.high_share == pytest.approx(0.3, abs=0.08)
    known, unknown = told.advice[0].explanation, silent.advice[0].explanation
    assert known is not None
    assert known.reliable
    assert "zone" in known.sentence
    assert unknown is not None
    assert (unknown.reliable, unknown.reason) == (False, "no-parameters")


def test_behind_a_marker_the_next_source_surfaces() -> None:
    """VF §3: variance of intrinsic sources must not hide the code around them."""
    tier1, tier2 = sections(reads(), marker(DISK))
    assert tier1.sites[0].label == QUEUE
    disk = next(site for site in tier1.sites if site.label == DISK)
    assert (disk.marker, disk.residual) == (MarkerKind.INTRINSIC, 0.0)
    assert disk.within > 0.4
    assert tier1.marked_share is not None
    assert tier1.marked_share > 0.5
    assert sum(site.residual or 0 for site in tier1.sites) == pytest.approx(1, abs=1e-9)
    assert DISK not in [advice.label for advice in tier2.advice]
    both, _ = sections(reads(), marker("*DISK_DONE"), marker("nfs/CACHE_MISS → sn1*"))
    assert both.sites[0].label not in (DISK, QUEUE)


def test_what_is_to_be_reduced_stays_on_top_until_its_c2_falls() -> None:
    tier1, _ = sections(
        reads(), marker(DISK, MarkerKind.INADVERTENT), marker("nfs/READ_CALL -> *", MarkerKind.INADVERTENT)
    )
    assert tier1.residual_sd_us is None
    assert (tier1.watched[0].site, tier1.watched[0].resolved) == (DISK, False)
    assert all(source.resolved for source in tier1.watched[1:])
    assert len(tier1.watched) == 3


def test_the_verdict_names_the_largest_causes_first() -> None:
    tier1, _ = sections(reads())
    assert f" of the variance comes from {DISK}" in _verdict(tier1, None).text
    first, *others = tier1.sites
    smaller = first.model_copy(update={"within": 0.2})
    told = _verdict(tier1.model_copy(update={"sites": (smaller, *others)}), None).text
    assert "26 % of the variance comes from different paths of the same root type, 20 % from" in (
        told.replace("\u00a0", " ")
    )
    assert told.endswith(f"{DISK}.")


def test_suggestions_go_by_name_and_change_nothing() -> None:
    tier1, tier2 = sections(reads())
    assert [(row.label, row.kind) for row in tier2.suggestions] == [(DISK, MarkerKind.INTRINSIC)]
    assert tier1.sites[0].marker is None


def test_of_two_samples_the_wilder_disk_is_what_became_more_variable() -> None:
    result = variance_result(reads(samples=2, wilder=2.0), (), VarianceSettings(), ReportLimits())
    change = result.sections[0]
    assert isinstance(change, VarianceChangeSection)
    assert result.verdict.outcome == "more-variable"
    assert [row.label for row in change.sites if row.ratio > 1] == [DISK, QUEUE]
    assert all(1 < row.interval.low < row.ratio < row.interval.high for row in change.sites[:2])
    assert change.ratio == pytest.approx(4, rel=0.4)
    assert change.interval is not None
    assert change.interval.low > 2
    same = variance_result(reads(samples=2), (), VarianceSettings(), ReportLimits())
    assert same.verdict.outcome == "as-variable"
    assert list(same.weighed) == []
    assert len(result.weighed) == 2


def test_a_category_may_be_chosen_and_looked_at_by_sites() -> None:
    found = reads()
    key = found.categories[0].graph.key
    _, tier2 = sections(found, category=(key[:8],), by="sites")
    assert [(detail.category, detail.by) for detail in tier2.details] == [(key, "sites")]
    with pytest.raises(ConfigError, match="no category"):
        sections(found, category=("zzz",))


@pytest.mark.parametrize("samples", [1, 2])
def test_page_terminal_and_json_say_the_same(samples: int) -> None:
    shown = outcome(reads(samples=samples, wilder=2.0))
    page = render_html(shown.report, shown.views)
    seen = assert_inert(page)
    text = " ".join("".join(seen.text).split())
    out = StringIO()
    print_report(shown.report, shown.views, Console(file=out, width=80, force_terminal=False))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    told = " ".join(out.getvalue().split())
    for words in ("within paths", "merges two behaviours", "zone", "Suggested markers"):
        assert words in text
        assert words in told
    if samples == 2:
        assert "What became more variable" in text
        assert "Its variance" in told
    assert from_json(to_json(shown.report), SECTIONS) == shown.report
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert re.search(r'<path class="\w+ curve"', page)
    assert {"variance_sites", "variance_categories", "variance_parts"} == set(shown.tables)


def a_delay_for_all(late_us: float, spread_us: float) -> Population:
    """Pages of two kinds; in the problem one of the two waits longer, by a constant and by what varies."""
    rng = np.random.default_rng(8)
    found = []
    for names in (("web/get", "cart/call", "web/done"), ("web/get", "ads/call", "web/done")):
        steps = rng.lognormal(0, 0.2, (400, 2)) * 10_000
        problem = np.arange(400) % 2
        if "ads/call" in names:
            steps[:, 0] += problem * (late_us * 1e3 + rng.normal(0, 1, 400) ** 2 * spread_us * 1e3)
        times = np.concatenate([np.zeros((400, 1)), np.cumsum(steps, axis=1)], axis=1)
        found.append(category(graph(names), times, problem))
    return population(*found, samples=(Sample("reference"), Sample("problem")), statuses=("ok",))


def test_a_delay_alike_for_all_varies_between_paths_and_at_no_place() -> None:
    def change(found: Population) -> VarianceChangeSection:
        sections = variance_result(found, (), VarianceSettings(), ReportLimits()).sections
        return next(section for section in sections if isinstance(section, VarianceChangeSection))

    alike, unlike = change(a_delay_for_all(200, 0)), change(a_delay_for_all(0, 200))
    assert alike.ratio > 100
    assert alike.sites == ()
    assert alike.between is not None
    assert alike.between > 0.99
    assert "between paths" in variance_words.change(alike)
    # Here it is the place, and what it adds is most of the change.
    assert unlike.sites[0].label == "web/get -> ads/call"
    assert unlike.sites[0].ratio > 1
    assert unlike.sites[0].change == pytest.approx(unlike.ratio - 1, rel=0.05)
    assert unlike.between is not None
    assert unlike.between < 0.5
    assert "between paths" not in variance_words.change(unlike)
