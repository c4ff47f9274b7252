"""Read a stored profile as a whole; the analyzer only ever reads it in columns."""

from __future__ import annotations

import pyarrow as pa

from analyze.profile.encoding import profile_of_stored, stored_tables
from analyze.profile.profile import Profile


def decode(data: pa.Buffer | bytes) -> Profile | None:
    """The profile of `encode`; None where the bytes are no such file, or one of another version."""
    stored = stored_tables(data)
    return None if stored is None else profile_of_stored(stored)
