"""The base of models whose shape is known whole: frozen, with unknown keys refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Closed(BaseModel):
    """Base: frozen; unknown keys, NaN and infinities refused.

    A validator is made when the first value is checked: a program that opens a lake needs few of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
