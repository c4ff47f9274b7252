"""A method of a test: its folder, where the registry finds it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import analyze.methods


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> Path:
    """Add a method's folder."""
    folder = tmp_path / "methods" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "method.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(analyze.methods, "__path__", [*analyze.methods.__path__, str(folder.parent)])
    # Restored, and so forgotten, at the end: another test may bring a method of this name.
    for module in (f"analyze.methods.{name}", f"analyze.methods.{name}.method"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


COUNTING = """
from typing import Literal

from analyze.methods.port import Method, Result, SampleCount
from analyze.report.blocks import Text
from analyze.report.section_view import SectionView
from schemas.config import Config
from schemas.report.report import Verdict
from schemas.report.parts import Section


class CountSettings(Config):
    pass


class CountSection(Section):
    section: Literal["count"] = "count"
    requests: dict[str, int]


def counted(compared):
    population = compared.population
    return {{
        sample.name: sum(c.rows(number).stop - c.rows(number).start for c in population.categories)
        for number, sample in enumerate(population.samples)
    }}


def analyse(compared, history, settings, limits):
    found = counted(compared) | ({{}} if history is None else counted(history))
    return Result(
        settings=settings,
        verdict=Verdict(outcome="counted", text="Counted."),
        sections=(CountSection(requests=found),),
    )


METHOD = Method(
    name="count",
    title="Counts",
    settings=CountSettings,
    samples=SampleCount({least}, {most}),
    analyse=analyse,
    sections=(SectionView(CountSection, lambda section: (Text(str(section.requests)),)),),
)
"""
"""The requests of each sample. `{least}` and `{most}` samples."""
