"""Errors that refuse a request: too much work, or a missing role."""

from __future__ import annotations

from schemas.errors import TRY_AGAIN, FlowdiffError


class BusyError(FlowdiffError):
    """Refusal because a limit of the server is reached; the same request may succeed later."""

    slug = "busy"
    exit_code = TRY_AGAIN


class ForbiddenError(FlowdiffError):
    """Refusal because the user's role does not allow the request."""

    slug = "forbidden"
