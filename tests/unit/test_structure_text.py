"""Canonical text: nesting, revisits, quoting, bounds."""

from __future__ import annotations

import pytest
from oracles.described import describe, tokens

from stitch.graph.template import Template
from stitch.graph.text import MAX_TEXT_CHARS


def template(
    names: str, *edges: tuple[int, int], responses: tuple[int, ...] = (), deferred: tuple[int, ...] = ()
) -> Template:
    words = names.split()
    return Template.of_graph(
        [("s", word, None) for word in words],
        edges,
        responses or (len(words) - 1,),
        deferred=[i in deferred for i in range(len(words))],
    )


def text(names: str, *edges: tuple[int, int], **more: tuple[int, ...]) -> str:
    return describe(template(names, *edges, **more)).canonical.replace("s/", "")


def chain(names: str) -> Template:
    n = len(names.split())
    return template(names, *((i, i + 1) for i in range(n - 1)))


def spans(tree: list[object]) -> Template:
    """A span tree: [name, child, …]; a child in a tuple is asynchronous."""
    names: list[tuple[str, str, str | None]] = []
    side: list[int] = []
    mate: list[int] = []
    deferred: list[bool] = []
    edges: set[tuple[int, int]] = set()

    def lay(node: list[object], late: bool) -> tuple[int, int]:
        start = len(names)
        for column, value in ((names, ("s", node[0], None)), (side, 1), (mate, 0), (deferred, late)):
            column.append(value)  # type: ignore[attr-defined]
        waits = []
        for child in node[1:]:
            later = isinstance(child, tuple)
            first, last = lay(child[0] if later else child, late or later)  # type: ignore[arg-type, index]
            edges.add((start, first))
            waits += [] if later else [last]
        end = len(names)
        for column, value in ((names, ("s", node[0], None)), (side, 2), (mate, start), (deferred, late)):
            column.append(value)  # type: ignore[attr-defined]
        mate[start] = end
        edges.update((wait, end) for wait in waits or [start])
        return start, end

    _, end = lay(tree, False)
    return Template.of_graph(names, sorted(edges), [end], side=side, mate=mate, deferred=deferred)


def test_sequence() -> None:
    assert text("a b c", (0, 1), (1, 2)) == "a b c"


def test_fork_and_join() -> None:
    assert text("a c b d", (0, 1), (0, 2), (1, 3), (2, 3)) == "a { b | c } d"


def test_two_phases_meet_without_a_node_between() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5)]
    assert text("p a b c d q", *edges) == "p { a | b } { c | d } q"


def test_a_join_that_does_not_nest_is_revisited() -> None:
    """The N: d waits for a and b, c for a alone. d is the fifth node of the text."""
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (3, 5), (4, 5)]
    assert text("p a b c d q", *edges) == "p { a &{ ^5 } c | b d } q"


def test_a_branch_nobody_waits_for_stands_beside_the_strand() -> None:
    assert text("a b c d", (0, 1), (1, 2), (1, 3), responses=(2,), deferred=(3,)) == "a b &{ ~d } c"


def test_an_unawaited_sink_that_is_awaited_elsewhere_is_marked() -> None:
    """Both b and c are sinks on the way to a response, and only c is one: b cannot be awaited."""
    assert text("a b c", (0, 1), (0, 2), responses=(1, 2)) == "a { b | c }"
    assert text("a b c", (0, 1), (1, 2), responses=(1, 2)) == "a !b c"


def test_leaf_spans_are_one_word_and_deferred_ones_are_marked() -> None:
    tree = spans(["p", ["a"], ["b", ["c"]], (["d"],)])
    assert describe(tree).canonical == "s/p> &{ ~s/d<> } { s/a<> | s/b> s/c<> s/b< } s/p<"


def test_the_end_of_a_deferred_span_stays_on_its_strand() -> None:
    """Nothing below a deferred span leads to the response; the mate tells its main strand."""
    tree = spans(["p", (["d", (["x"],), ["y"]],)])
    assert describe(tree).canonical == "s/p> &{ ~s/d> &{ ~s/x<> } ~s/y<> ~s/d< } s/p<"


def test_identical_branches_are_gathered() -> None:
    tree = spans(["p", ["a"], ["a"], ["b"], ["a"]])
    structure = describe(tree)
    assert structure.canonical == "s/p> { s/a<> *3 | s/b<> } s/p<"
    assert structure.canonical_l1 == "s/p> { s/a<> *4 | s/b<> } s/p<"
    assert structure.canonical_l2 == "s/p> { s/a<> *2+ | s/b<> } s/p<"


def test_words_of_the_text() -> None:
    structure = describe(chain("a b b b c"))
    assert tokens(structure, 0) == ("s/a", "(", "s/b", ")*3", "s/c")
    assert tokens(structure) == ("s/a", "(", "s/b", ")*4", "s/c")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("GET /cart/{id}", '"s/GET /cart/{id}"'),
        ("plain.name-1/x:y", "s/plain.name-1/x:y"),
        ('say "hi"\\', '"s/say \\"hi\\"\\\\"'),
        ("tab\tnul\x00rtl\u202e", '"s/tab\\u{9}nul\\u{0}rtl\\u{202e}"'),
        ("a|b", '"s/a|b"'),
        ("end<", '"s/end<"'),
    ],
)
def test_names_that_could_be_read_as_grammar_are_quoted(name: str, word: str) -> None:
    structure = describe(Template.of_graph([("s", name, None), ("s", "b", "hit")], [(0, 1)], [1]))
    assert structure.canonical == f"{word} s/b/hit"
    assert tokens(structure) == (word, "s/b/hit")


def test_a_long_text_is_cut_with_a_mark() -> None:
    names = [("service", f"point{i}", None) for i in range(20_000)]
    long = Template.of_graph(names, [(i, i + 1) for i in range(19_999)], [19_999])
    structure = describe(long)
    shown = tokens(structure, 0)
    assert len(structure.canonical) <= MAX_TEXT_CHARS + 64
    assert shown[-1] == f"…+{20_000 - (len(shown) - 1)}"
    other = describe(Template.of_graph([*names[:-1], ("service", "end", None)], long.edges, [19_999]))
    assert other.canonical == structure.canonical
    assert other.category_l1 != structure.category_l1


def test_deep_and_wide_structures_do_not_blow_up() -> None:
    """Nesting 3,000 deep, beyond Python's recursion limit, and a ladder in which no join nests."""
    n = 4 * 3_000
    edges = []
    for level in range(3_000):
        start, end = 3 * level, n - 1 - level
        edges += [(start, start + 1), (start + 1, start + 2), (start + 2, end)]
        edges += [(start, start + 3), (end - 1, end)] if level < 2_999 else []
    names, side, mate = [("", "", None)] * n, [0] * n, [0] * n
    for level in range(3_000):
        start, end = 3 * level, n - 1 - level
        for a, b, name in ((start, end, "op"), (start + 1, start + 2, "leaf")):
            names[a] = names[b] = ("s", name, None)
            side[a], side[b], mate[a], mate[b] = 1, 2, b, a
    structure = describe(Template.of_graph(names, edges, [n - 1], side=side, mate=mate))
    assert len(set(structure.fold_position)) == n
    assert structure.canonical.startswith("s/op> { s/leaf<> | s/op> { s/leaf<> | s/op> {")

    rungs = [(i, i + 1) for i in range(1, 1_998, 2)]
    rails = [(i, i + 2) for i in range(1, 1_998)]
    names = [("s", f"p{i % 3}", None) for i in range(2_000)]
    ladder = describe(Template.of_graph(names, [(0, 1), (0, 2), *rungs, *rails], [1_998, 1_999]))
    assert len(set(ladder.fold_position)) == 2_000


def test_templates_that_are_no_rooted_order_are_refused() -> None:
    for edges in ([(1, 0)], [(0, 2)], [(0, 1), (0, 3)], []):
        with pytest.raises(ValueError, match=r"Template edges|Every node"):
            describe(template("a b c", *edges))
    with pytest.raises(ValueError, match="at least one"):
        describe(template("", responses=(0,)))
