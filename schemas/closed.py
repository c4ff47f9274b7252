"""Base of models with a closed set of fields: frozen, unknown keys refused."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Closed(BaseModel):
    """Base model: frozen; refuses unknown keys, NaN and infinities.

    Its validator is built when the first value is checked: a program that opens a lake needs few validators.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
