"""The section `mutations` on the page and on a terminal."""

from __future__ import annotations

from typing import Final

from analyze.report.section_view import SectionView
from analyze.report.sections.mutations.mutation_page import mutations_html
from analyze.report.sections.mutations.mutation_terminal import print_mutations
from schemas.report.mutations import MutationsSection

MUTATIONS: Final = SectionView(MutationsSection, mutations_html, print_mutations)
