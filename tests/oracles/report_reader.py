"""Reads a report back from its JSON, as a program that knows some of its sections does."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.report.report import Report, Section


def from_json(text: str | bytes, sections: Iterable[type[Section]]) -> Report:
    """The report that `to_json` wrote, its sections as the models given; others as `ForeignSection`.

    Raises pydantic.ValidationError for another version, or anything that is no report.
    """
    known = {model.model_fields["section"].default: model for model in sections}
    return Report.model_validate_json(text, context={"sections": known})
