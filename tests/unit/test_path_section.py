"""The section of whole paths: sentences, the difference-only view of large graphs, page and terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from oracles.paths import path, swapped
from oracles.populations import graph, population
from rich.console import Console

from analyze.methods.robust.sections.paths import PATHS, move_title, one_line, paths_blocks, paths_section
from analyze.paths.alignment import SignatureKind, aligned_steps, difference_lines, signature
from analyze.paths.settings import PathSettings
from analyze.population import Graph, Population
from analyze.report.limits import ReportLimits
from analyze.report.model_values import node_name
from analyze.report.page import blocks_html
from analyze.report.terminal import print_blocks
from schemas.report.parts import NodeName
from schemas.report.paths import PathsSection


def said(before: Graph, after: Graph) -> str:
    mark = signature(before, after, aligned_steps(before, after))
    return move_title(
        mark.move.value,
        node_name(mark.anchor) if mark.anchor is not None else None,
        [node_name(n) for n in mark.inserted],
        [node_name(n) for n in mark.removed],
        [(node_name(a), node_name(b)) for a, b in mark.replaced],
        new=False,
        lost=False,
    )


@pytest.mark.parametrize(
    ("before", "after", "title"),
    [
        ("m/w sn1/put m/r", "m/w sn2/put m/r", "put now goes to sn2 instead of sn1"),
        (
            "m/w sn1/put sn1/log m/r",
            "m/w sn2/put sn2/log m/r",
            "put and 1 more step now go to sn2 instead of sn1",
        ),
        ("m/w m/r", "m/w c/ask m/r", "m/w is now followed by c/ask"),
        ("m/w c/ask c/x m/r", "m/w m/r", "m/w is no longer followed by c/ask, c/x"),
        (
            "m/w c/ask m/r",
            "m/w d/get d/x d/y m/r",
            "d/get, d/x and 1 more step instead of c/ask after m/w",
        ),
        ("m/w c/ask m/r", "m/w c/ask c/ask c/ask m/r", "The same steps, other numbers of c/ask"),
        ("m/w a/x b/y m/r", "m/w b/y a/x m/r", "The same steps, other numbers of b/y"),
    ],
)
def test_what_a_move_is_called(before: str, after: str, title: str) -> None:
    assert said(graph(before.split()), graph(after.split())) == title


def test_another_host_is_named_where_hosts_are_told_apart() -> None:
    def on(host: str) -> Graph:
        plain = graph(["m/w", "sn/put", "m/r"])
        nodes = (plain.nodes[0], plain.nodes[1]._replace(host=host), plain.nodes[2])
        return replace(plain, nodes=nodes)

    assert said(on("h1"), on("h2")) == "put now goes to h2/sn instead of h1/sn"


def test_waits_alone_are_an_order() -> None:
    chain = graph(["m/w", "a/x", "b/y", "m/r"])
    fork = graph(["m/w", "a/x", "b/y", "m/r"], [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert signature(chain, fork, aligned_steps(chain, fork)).move is SignatureKind.ORDER


def test_loop_counts_are_no_part_of_a_signature() -> None:
    without = graph(["m/w", "m/r"])
    once, thrice = graph(["m/w", "c/ask", "m/r"]), graph(["m/w", *["c/ask"] * 3, "m/r"])
    one, three = (signature(g, without, aligned_steps(g, without)) for g in (once, thrice))
    assert one.key == three.key
    assert one.move is SignatureKind.REMOVED


def test_the_same_work_elsewhere_is_one_change_wherever_it_is_asked_for() -> None:
    def key(*first: str) -> tuple[object, ...]:
        before, after = (graph([*first, where, "m/r"]) for where in ("sn1/put", "sn2/put"))
        return signature(before, after, aligned_steps(before, after)).key

    def added(*first: str) -> tuple[object, ...]:
        before, after = graph([*first, "m/r"]), graph([*first, "c/ask", "m/r"])
        return signature(before, after, aligned_steps(before, after)).key

    assert key("m/w") == key("m/w", "x/y")
    assert added("m/w") != added("m/w", "x/y")


def test_a_large_graph_shows_only_where_it_differs() -> None:
    labels = [f"c/step{i}" for i in range(2_000)]
    before = graph(labels)
    after = graph([*labels[:900], "c/extra", *labels[900:]])
    lines = difference_lines(before, after, aligned_steps(before, after), 60)
    shown = [(line.before, line.after) for line in lines if line.before is not None or line.after is not None]
    assert (None, 900) in shown
    assert len(shown) <= 5
    assert sum(line.steps for line in lines) == 2_001
    assert sum(line.differing for line in lines) == 0


def test_a_difference_that_is_too_long_is_cut_and_says_so() -> None:
    before = graph(["r", *[f"a/{i}" for i in range(200)], "z"])
    after = graph(["r", *[f"b/x{i}" for i in range(200)], "z"])
    lines = difference_lines(before, after, aligned_steps(before, after), 20)
    assert len(lines) <= 21
    assert lines[-1].differing > 300
    assert sum(line.steps for line in lines) == 402


def changed() -> Population:
    return population(
        path(["MDS/write", "sn-meta/put", "MDS/reply"], (700, 300), (1_000, 1_000)),
        path(["MDS/write", "sn-data/put", "MDS/reply"], (100, 500), (3_000, 3_000)),
        path(["MDS/read", "<b>&/x", "MDS/reply"], (400, 400), (1_000, 2_500)),
    )


def section() -> PathsSection:
    return paths_section(changed(), None, PathSettings(), ReportLimits())


def test_the_section_adds_up_and_goes_through_json() -> None:
    found = section()
    a = found.account
    assert a.mix_us + a.structure_us + a.timing_us + a.rest_us == pytest.approx(a.after_us - a.before_us)
    assert found.groups[0].title == "put now goes to sn-data instead of sn-meta"
    assert [row.fate for row in found.groups[0].difference] == ["kept", "replaced", "kept"]
    assert sum(g.contribution_us for g in found.groups) + found.not_compared_us == pytest.approx(
        a.structure_us
    )
    assert PathsSection.model_validate_json(found.model_dump_json()) == found
    assert found.paths_total == 3
    assert not found.no_baseline


def test_swapped_periods_name_the_move_back() -> None:
    back = paths_section(swapped(changed()), None, PathSettings(), ReportLimits())
    assert back.groups[0].title == "put now goes to sn-meta instead of sn-data"
    assert back.groups[0].contribution_us == pytest.approx(-section().groups[0].contribution_us)


def printed(found: PathsSection) -> str:
    out = io.StringIO()
    print_blocks(paths_blocks(found), Console(file=out, width=200, color_system=None))
    return out.getvalue()


def test_terminal_has_one_line() -> None:
    text = printed(section())
    assert text.count("\n") <= 2
    assert "of the requests took another path" in text
    assert "put now goes to sn-data" in text
    assert " ".join(text.split()) == " ".join(f"Paths: {one_line(section())}".split())


def test_page_is_a_closed_aside_with_escaped_names() -> None:
    html = str(blocks_html(paths_blocks(section()), "-2"))
    assert PATHS.aside
    assert html.strip().startswith('<details class="more"><summary>Whole paths</summary>')
    assert html.count("<details") == html.count("</details>")
    assert "<b>" not in html
    assert "put" in html
    assert "<strong" in html


def test_nothing_changed_says_so() -> None:
    quiet = population(path(["r", "a", "z"], (300, 300), (500, 500)))
    found = paths_section(quiet, None, PathSettings(), ReportLimits())
    assert printed(found) == ""
    assert "No path changed significantly." in str(blocks_html(paths_blocks(found), ""))


def test_lists_are_cut_with_their_totals() -> None:
    ways = [
        path(
            ["r", f"s{i}/a", f"t{i}/b", "z"],
            (200 if i % 2 else 10, 10 if i % 2 else 200),
            (500 + i, 500 + i),
            seed=i,
        )
        for i in range(12)
    ]
    found = paths_section(population(*ways), None, PathSettings(groups=2, aligned=3), ReportLimits())
    assert len(found.groups) == 2
    assert found.groups_total == 3
    assert found.moves_not_compared > 0
    np.testing.assert_allclose(
        found.account.structure_us,
        sum(
            g.contribution_us
            for g in paths_section(population(*ways), None, PathSettings(), ReportLimits()).groups
        ),
    )


def test_names_without_a_point() -> None:
    title = move_title("inserted", None, [NodeName(component="x", point="")], [], [], new=True, lost=False)
    assert title == "Also x (against the usual path)"
