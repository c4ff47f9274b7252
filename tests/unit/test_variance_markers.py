"""Markers: the file, its errors, what a label means, and expiry."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from oracles.striped_reads import DISK, reads

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.variance.markers import Marker, day_of, read_markers, suggested
from analyze.methods.variance.method import METHOD
from analyze.methods.variance.settings import VarianceSettings
from analyze.profile.names import PartName
from analyze.report.section_view import warnings
from schemas.errors import ConfigError
from schemas.report.variance import MarkerKind, VarianceSection

GOOD = """
[[marker]]
label = "sn1/READ_CALL -> sn1/DISK_DONE"
kind = "intrinsic"
owner = "storage"
reason = "one disk"
expires = {expires}
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "markers.toml"
    path.write_text(GOOD.format(expires="2027-03-01"), encoding="utf-8")
    (found,) = read_markers(path)
    assert found == Marker(
        label=DISK, kind=MarkerKind.INTRINSIC, owner="storage", reason="one disk", expires=date(2027, 3, 1)
    )
    assert not found.is_expired(date(2027, 2, 28))
    assert found.is_expired(date(2027, 3, 1))
    path.write_text("", encoding="utf-8")
    assert read_markers(path) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[marker]", "no TOML"),
        ("[[markers]]\nlabel = 'x'", "markers"),
        ("[[marker]]\nlabel = 'x'\nkind = 'bad'\nowner = 'o'\nreason = 'r'", "marker.1.kind"),
        ("[[marker]]\nlabel = 'x'\nkind = 'intrinsic'\nowner = 'o'", "marker.1.reason"),
        ("[[marker]]\nlabel = ''\nkind = 'intrinsic'\nowner = 'o'\nreason = 'r'", "marker.1.label"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "markers.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_markers(path)
    assert told in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml' cannot be read"):
        read_markers(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("label", "means"),
    [(DISK, True), ("*DISK*", True), ("sn1/READ_CALL → sn1/DISK_DONE", True), ("sn1/READ_CALL", False)],
)
def test_what_a_label_means(label: str, means: bool) -> None:
    marker = Marker(label=label, kind=MarkerKind.INTRINSIC, owner="o", reason="r")
    assert marker.matches(DISK) is means


def test_an_expired_marker_warns_and_does_nothing(tmp_path: Path) -> None:
    found = reads()  # the day of the period is 1970-01-01
    assert day_of(found.samples[0].end_ns) == date(1970, 1, 1)
    path = tmp_path / "markers.toml"
    told = {}
    for expires in ("1970-01-01", "1970-01-02"):
        path.write_text(GOOD.format(expires=expires), encoding="utf-8")
        shown = compare(found, [Chosen(METHOD, VarianceSettings(markers=path))])
        section = shown.report.section(VarianceSection)
        told[expires] = (section.markers[0].state, section.residual_sd_us is None)
        assert (len(warnings(shown.report, shown.views)) == 1) is (expires == "1970-01-01")
    assert told == {"1970-01-01": ("expired", True), "1970-01-02": ("holds", False)}


def test_a_marker_that_means_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "markers.toml"
    path.write_text(GOOD.format(expires="1999-01-01").replace("sn1/READ", "sn9/READ"), encoding="utf-8")
    shown = compare(reads(), [Chosen(METHOD, VarianceSettings(markers=path))])
    assert shown.report.section(VarianceSection).markers[0].state == "unused"
    assert any("means no edge" in note for note in shown.report.notes)


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        ("mds/CALL", "mds/LOCK_ACQUIRE", MarkerKind.INADVERTENT),
        ("sn/CALL", "sn/DISK_READ", MarkerKind.INTRINSIC),
        ("sn/DISK_READ", "sn/REPLY", None),
        ("sn/fsync", "", MarkerKind.INTRINSIC),
        ("nfs/CALL", "nfs/CACHE_FILL", MarkerKind.INTENTIONAL),
        ("sn/CALL", "sn/BLOCK_CACHE", MarkerKind.INTENTIONAL),
        ("shop/audio", "shop/ratio", None),
    ],
)
def test_suggestions(source: str, target: str, kind: MarkerKind | None) -> None:
    found = suggested(PartName(source, target, 0, 1, 0))
    assert (None if found is None else found[0]) is kind
