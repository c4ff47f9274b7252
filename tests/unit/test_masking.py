"""Secrets of addresses are masked wherever a message repeats an address."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from oracles.command_line import command

import flowdiff
from schemas.errors import InputError
from schemas.masking import masked_address, masked_passwords


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("ftp://u:PW@h", "ftp://***@h"),
        ("s3://u:P/W@h/x", "s3://***@h/x"),
        ("s3://u:P@W@h/x", "s3://***@h/x"),
        ("host:1?password=PW", "host:1?***"),
        ("user:P/W@host:1", "***@host:1"),
        ("https://h:8443/x", "https://h:8443/x"),
    ],
)
def test_a_refused_address_is_shown_without_secrets(text: str, masked: str) -> None:
    assert masked_address(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "kafka://host:9092/topic@2026-11-18T20:20/6m",
        "kafka://one:9092,two:9092/topic@2026-11-18T20:20/6m",
        "kafka://one,two:9092/topic@0:5",
        "kafka://[::1]:9092,[fe80::1%eth0]:9092/topic@0:5",
        "s3://bucket/shop@2026-11-18T20:20/6m",
        "https://host:8443/x",
        "user@host:1",
    ],
)
def test_what_holds_no_password_stays_as_it_is(text: str) -> None:
    assert masked_passwords(text) == text


@pytest.mark.parametrize(
    "text", ["ftp://me@corp.com:PW@h/x", "ftp://u:PW@h1,h2/x", "ftp://u:1,P/W@h", "s3://u:123/W@h"]
)
def test_a_password_is_masked_whatever_its_user_and_host_look_like(text: str) -> None:
    assert "W@" not in masked_passwords(f"No lake at '{text}'.")


@pytest.mark.parametrize(
    "text", ["://a:" * 20_000, "@" + "://a:" * 20_000, "://" + "a:" * 30_000, "x/" * 20_000]
)
@pytest.mark.parametrize("mask", [masked_address, masked_passwords])
def test_masking_takes_linear_time(mask: Callable[[str], str], text: str) -> None:
    begin = time.process_time()
    mask(text)
    assert time.process_time() - begin < 0.5


def test_no_expected_failure_says_a_password() -> None:
    error = InputError("'http://u:PW@h/a' and 's3://k:P/W@b' are gone.", remedy="Ask http://u:PW@h.")
    assert error.message == "'http://***@h/a' and 's3://***@b' are gone."
    assert str(error) == "'http://***@h/a' and 's3://***@b' are gone. Ask http://***@h. [input]"
    assert "PW" not in repr(error)


@pytest.mark.parametrize(
    "words",
    [
        ("s3://u:SECRET@h",),
        ("windows", "--lake", "lake", "s3://u:SECRET@h"),
        ("sql", "--lake", "lake", "--format", "s3://u:SECRET@h"),
        ("simulate", "--out", "s3://u:SECRET@h/traces.gz"),
        ("serve", "lake", "--listen", "u:SECRET@h"),
        ("serve", "lake", "--user-header", "user", "--proxy", "u:SECRET@h"),
        ("top", "u:SECRET@h:99999"),
    ],
    ids=" ".join,
)
def test_an_address_where_none_is_expected_shows_no_secret(words: tuple[str, ...], tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    if "lake" in words:
        flowdiff.open(lake, create=True)
    done = command(*(lake if word == "lake" else word for word in words))
    assert done.code == 2
    assert "***@" in done.err
    assert "SECRET" not in done.err + done.out


@pytest.mark.parametrize(
    "name", ["ftp://u:SECRET@h", "s3://u:SECRET@h", "ftp://SECRET@h", "ftp://h?key=SECRET"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("windows", "--lake"),
        ("fsck",),
        ("import", "--lake", "lake"),
        ("compare", "--reference", "all", "--problem", "all", "--lake"),
        ("up",),
        ("demo",),
        ("watch",),
    ],
    ids=" ".join,
)
def test_a_refused_name_of_a_lake_shows_no_secret(words: tuple[str, ...], name: str) -> None:
    done = command(*words, name)
    assert done.code == 2
    assert "SECRET" not in done.err + done.out


def test_a_demo_makes_no_folder_that_is_named_like_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("demo", "s3://bucket/demo", "--requests", "100")
    assert (done.code, done.out) == (2, "")
    assert "'s3://bucket/demo' is no folder of this machine. Name a folder" in done.err
    assert [*tmp_path.iterdir()] == []
