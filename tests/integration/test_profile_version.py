"""What a stored profile means does not change unnoticed: statistics that were kept are read for years."""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from pathlib import Path

from oracles.quiet_import import Quiet
from oracles.sample_profiles import sample_profile
from oracles.traffic import write_native, write_otlp

from analyze.profile.encoding import version
from analyze.profile.profile import Profile
from analyze.refine.settings import RefineSettings
from analyze.scope import Lakes
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import ImportSettings, import_into

DIGESTS = {"8.11": "bde28979f977442f"}
"""By version. Where this test fails, kept statistics would be read as something that they are not: raise
PROFILE_VERSION, and put the new digest here."""


def digest(profile: Profile) -> str:
    """Of every number (floats to nine digits), every name, and when requests began."""
    told = [
        [table.column_names, *([f"{value:.9g}" for value in column.to_pylist()] for column in table.columns)]
        for table in profile.tables().values()
    ]
    names = profile.names
    held = [slot.watched for slot in profile.slots]
    words = [held, names.operations, names.sites, names.paths, names.patterns, names.roots, names.errors]
    return hashlib.sha256(json.dumps([told, words]).encode()).hexdigest()[:16]


def test_the_version_says_what_a_profile_means(tmp_path: Path) -> None:
    write_native(tmp_path / "records.ndjson", 30, seconds=200)
    write_otlp(tmp_path / "spans.otlp", 30, seconds=200, spans=12)
    for name in ("records.ndjson", "spans.otlp"):
        import_into(
            tmp_path / "lake",
            [str(tmp_path / name)],
            ImportSettings(window_length_ns=5 * NS_PER_MINUTE),
            owner="test",
            created_by="test",
            stdin=BytesIO(),
            progress=Quiet(),
        )
    found = Lakes(str(tmp_path / "lake")).ranges(parse_ranges(["all"], now_ns=0))
    profile = sample_profile([found], RefineSettings())
    assert len({site.kind for site in profile.names.sites}) == 3
    assert digest(profile) == DIGESTS[version()]
