"""Which bucket a name means, and where keys, region and endpoint come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from stitch.lake.backends import backend_of
from stitch.lake.bucket.bucket_settings import bucket_settings

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden"}


@pytest.mark.parametrize(
    ("name", "bucket", "prefix"),
    [
        ("s3://lakes", "lakes", ""),
        ("s3://lakes/", "lakes", ""),
        ("s3://lakes/team/shop", "lakes", "team/shop"),
        ("s3://my.lakes-1/team=a/shop/", "my.lakes-1", "team=a/shop"),
    ],
)
def test_a_name_is_a_bucket_and_a_prefix(name: str, bucket: str, prefix: str) -> None:
    settings = bucket_settings(name, KEYS)
    assert (settings.bucket, settings.prefix) == (bucket, prefix)
    assert settings.url == name.rstrip("/")
    backend = backend_of(name)
    assert backend is not None
    assert backend.settings(name, KEYS) == settings


@pytest.mark.parametrize("name", ["lake", "./s3:/lake", "/s3://lake", "S3/lake"])
def test_other_names_are_folders(name: str) -> None:
    assert backend_of(name) is None


@pytest.mark.parametrize("name", ["gs://bucket/lake", "az://a", "https://store/b", "S3://bucket/lake"])
def test_other_stores_are_no_folders(name: str) -> None:
    with pytest.raises(ConfigError, match="names no lake"):
        backend_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "s3://",
        "s3:///x",
        "s3://a b/x",
        "s3://b/../x",
        "s3://b/a//x",
        "s3://b/x?y",
        "s3://b/x\x00",
        "s3://b/é",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="names no lake in a bucket"):
        bucket_settings(name, KEYS)


def test_the_environment_counts_before_the_profile(tmp_path: Path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = file\naws_secret_access_key = s3cret\n"
        "[other]\naws_access_key_id = other\naws_secret_access_key = s3cret\naws_session_token = t\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile other]\nregion = eu-north-1\nendpoint_url = https://s3.example\n"
    )
    home = {"HOME": str(tmp_path)}
    found = bucket_settings("s3://lakes", home)
    assert found.keys is not None
    assert (found.keys.access_key_id, found.region, found.endpoint) == ("file", "eu-west-1", None)
    other = bucket_settings("s3://lakes", {**home, "AWS_PROFILE": "other"})
    assert other.keys is not None
    assert other.keys.token is not None
    assert (other.keys.access_key_id, other.region, other.endpoint) == (
        "other",
        "eu-north-1",
        "https://s3.example",
    )
    told = {**home, **KEYS, "AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}
    mine = bucket_settings("s3://lakes", told)
    assert mine.keys is not None
    assert (mine.keys.access_key_id, mine.region, mine.endpoint) == (
        "id",
        "us-west-2",
        "http://127.0.0.1:9000",
    )
    elsewhere = {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), "AWS_PROFILE": "other"}
    keys = bucket_settings("s3://lakes", elsewhere).keys
    assert keys is not None
    assert keys.access_key_id == "other"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "There are no credentials"),
        ({"AWS_PROFILE": "none"}, "There is no profile 'none'"),
        ({**KEYS, "AWS_ENDPOINT_URL": "host:9000"}, "The endpoint 'host:9000' is no URL"),
        ({**KEYS, "FLOWDIFF_BUCKET_TIMEOUT": "soon"}, "is no number of seconds"),
        ({**KEYS, "FLOWDIFF_BUCKET_TIMEOUT": "nan"}, "is no number of seconds"),
    ],
)
def test_what_is_wrong_is_told(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bucket_settings("s3://lakes", environ)


def test_profiles_that_are_not_followed_and_files_that_do_not_parse_are_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nsso_session = corp\n")
    environ = {"AWS_CONFIG_FILE": str(config)}
    with pytest.raises(ConfigError, match=r"no keys but sso_session.*export-credentials"):
        bucket_settings("s3://lakes", environ)
    config.write_text("aws_secret_access_key = s3cret\n")
    with pytest.raises(ConfigError, match="it does not parse") as raised:
        bucket_settings("s3://lakes", environ)
    assert "s3cret" not in str(raised.value)


def test_roles_and_anonymous_buckets_need_no_keys() -> None:
    assert bucket_settings("s3://lakes", {}).keys is None
    role = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
    assert bucket_settings("s3://lakes", role).keys is None
    anonymous = bucket_settings("s3://lakes", {**KEYS, "AWS_SKIP_SIGNATURE": "true"})
    assert anonymous.anonymous
    assert anonymous.keys is None


def test_secrets_are_in_no_text() -> None:
    settings = bucket_settings("s3://lakes", {**KEYS, "AWS_SESSION_TOKEN": "token-of-mine"})
    for text in (repr(settings), str(settings), repr(settings.keys)):
        assert "hidden" not in text
        assert "token-of-mine" not in text
