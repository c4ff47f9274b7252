"""The words of a refined graph, made when they are first asked for."""

from __future__ import annotations

from functools import cached_property

from stitch.graph.template import Template
from stitch.graph.text import split_words
from stitch.readings import reading_of


class TemplateText:
    """`GraphText` of a template: 10 µs a node at the first look."""

    def __init__(self, template: Template) -> None:
        self._template = template

    @cached_property
    def _texts(self) -> tuple[str, str]:
        reading = reading_of(self._template)
        return reading.canonical, reading.canonical_l1

    @property
    def canonical(self) -> str:
        """Canonical text, for people."""
        return self._texts[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Canonical token sequence at level L1."""
        return split_words(self._texts[1])
