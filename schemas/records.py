"""Model of the native activity record, version 1, used to explain refused records.

The columnar decoder never builds one; it validates lines against the model only after refusing them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from schemas.events import SMALLEST_RATE
from schemas.rejects import Reason


class RecordKind(StrEnum):
    """Effect of a record on strands (threads of activity inside a request)."""

    EVENT = "event"
    SPLIT = "split"
    JOIN = "join"
    END = "end"


_Word = Annotated[str, StringConstraints(min_length=1)]
_INT64 = 2**63 - 1


class ActivityRecord(BaseModel):
    """One passage of a trace point. Unknown fields are ignored; numbers given as ids or names become text."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    breadcrumb: _Word
    """Name of the strand (thread of activity) that the record belongs to."""
    request_id: str | None = None
    """Id of the request; absent: the request is the component of breadcrumbs linked by split and join
    records.
    """
    ts: int = Field(ge=-_INT64, le=_INT64)
    """Time, ns since the epoch, by the recording host's clock."""
    component: _Word
    point: _Word
    host: str | None = None
    label: str | None = None
    kind: RecordKind | None = None
    """Effect on strands; None means `event`."""
    links: list[str] | None = None
    """Breadcrumbs that this record starts (split) or merges (join)."""
    seq: int | None = Field(default=None, ge=-_INT64, le=_INT64)
    id: str | None = None
    parents: list[str] | None = None
    params: dict[str, Any] | None = None
    status: str | None = None
    """`ok` or an error class; None means `ok`."""
    sample_rate: float | None = Field(default=None, ge=SMALLEST_RATE, le=1)


FIELDS = tuple(ActivityRecord.model_fields)
"""Field names of ActivityRecord, in order of declaration."""


def explain(error: ValidationError) -> tuple[Reason, str]:
    """Return (Reason, sentence) for the first error that pydantic reports for a record."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the record"
    kind = first["type"]
    if kind == "missing":
        return Reason.MISSING_FIELD, f"{place} is missing"
    if kind in ("model_type", "model_attributes_type"):
        return Reason.WRONG_SHAPE, "the record is not a JSON object"
    wrong_value = kind.startswith(("greater", "less", "string_too", "enum", "finite"))
    return (Reason.BAD_VALUE if wrong_value else Reason.BAD_TYPE), f"{place}: {first['msg']}"
