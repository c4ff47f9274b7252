"""Texts of refined graphs, written when they are asked for: of thousands of categories a few are shown."""

from __future__ import annotations

from functools import cached_property

from analyze.refine.stored import StoredStructure
from stitch.graph.describe import Structure, describe, tokens
from stitch.graph.template import Template
from stitch.graph.text import split_words


class DescribedTexts:
    """Of a graph that the refinement changed."""

    def __init__(self, template: Template) -> None:
        self._template = template

    @cached_property
    def _described(self) -> Structure:
        return describe(self._template)

    @property
    def canonical(self) -> str:
        """See `GraphTexts`."""
        return self._described.canonical

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """See `GraphTexts`."""
        return tokens(self._described)


class StoredTexts:
    """Of a graph that is as it was stored: the lake has them."""

    def __init__(self, stored: StoredStructure) -> None:
        self.canonical = stored.canonical
        self._level1 = stored.canonical_l1

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """See `GraphTexts`."""
        return split_words(self._level1)
