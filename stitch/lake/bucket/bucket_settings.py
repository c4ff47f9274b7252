"""Settings of a bucket: `s3://bucket/prefix`, the environment, the configuration files of AWS's tools.

Sources, the first with a value counts:

* keys: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (`AWS_SESSION_TOKEN`); the profile `AWS_PROFILE` of
  `~/.aws/credentials` and `~/.aws/config`; a role of the machine (web identity, container, instance), which
  the client finds by itself. `AWS_SKIP_SIGNATURE=true` asks without keys.
* endpoint: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `endpoint_url` of the profile, else that of the region.
* region: `AWS_REGION`, `AWS_DEFAULT_REGION`, `region` of the profile, else us-east-1.
* `AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true`: the bucket is part of the host's name; else of the path.
* `AWS_CA_BUNDLE`: certificates to trust beside the system's.
* `FLOWDIFF_BUCKET_TIMEOUT`: seconds a request may take.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from schemas.errors import ConfigError
from schemas.masking import masked_address

SCHEME: Final = "s3://"
DEFAULT_REGION: Final = "us-east-1"
DEFAULT_TIMEOUT_S: Final = 30.0
"""Default time limit of a request, s: a file of 100 MB takes 25 s at 4 MB/s."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.=/-]*")
"""Pattern of a prefix: only characters that are valid in a key of every store, and in a shell word without
quotes."""
_NOT_KEYS: Final = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")
"""Keys of an AWS profile that name sources of credentials which this program does not support."""


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Access keys of a bucket; `token` is set only for temporary keys."""

    access_key_id: str
    secret: SecretStr
    token: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """Address of one lake in a bucket, and access to it. Hashable: equal settings mean the same lake."""

    bucket: str
    prefix: str
    """Path in the bucket, without a slash at either end; may be empty."""
    endpoint: str | None = None
    """URL of the store; None: the region's default."""
    region: str = DEFAULT_REGION
    virtual_hosted: bool = False
    anonymous: bool = False
    keys: BucketKeys | None = field(default=None, repr=False)
    """Access keys; None: the client uses a role of the machine, or no keys if `anonymous`."""
    ca_file: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def url(self) -> str:
        """Name of the lake, for messages: `s3://bucket/prefix`."""
        return f"{SCHEME}{self.bucket}{'/' if self.prefix else ''}{self.prefix}"


def bucket_settings(name: str, environ: Mapping[str, str]) -> BucketSettings:
    """Settings of the lake `s3://bucket/prefix`.

    Raises ConfigError for an invalid name, and if there are neither keys nor a role.
    """
    bucket, _, prefix = name.removeprefix(SCHEME).partition("/")
    prefix = prefix.strip("/")
    if not _BUCKET.fullmatch(bucket) or not _PREFIX.fullmatch(prefix) or _has_odd_part(prefix):
        raise ConfigError(
            f"'{masked_address(name)}' names no lake in a bucket.",
            remedy="Write s3://BUCKET or s3://BUCKET/PREFIX.",
        )
    profile = _profile(environ)
    anonymous = _is_true(environ.get("AWS_SKIP_SIGNATURE"))
    endpoint = _first(environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"The endpoint '{masked_address(endpoint)}' is no URL.",
            remedy="Write AWS_ENDPOINT_URL=https://HOST.",
        )
    return BucketSettings(
        bucket=bucket,
        prefix=prefix,
        endpoint=endpoint,
        region=_first(environ, "AWS_REGION", "AWS_DEFAULT_REGION") or profile.get("region") or DEFAULT_REGION,
        virtual_hosted=_is_true(environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST")),
        anonymous=anonymous,
        keys=None if anonymous else _keys(environ, profile),
        ca_file=_first(environ, "AWS_CA_BUNDLE"),
        timeout_s=_seconds(environ.get("FLOWDIFF_BUCKET_TIMEOUT")),
    )


def _has_odd_part(prefix: str) -> bool:
    return any(part in ("", ".", "..") for part in prefix.split("/")) if prefix else False


def _keys(environ: Mapping[str, str], profile: Mapping[str, str]) -> BucketKeys | None:
    for source, names in (
        (environ, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")),
        (profile, ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")),
    ):
        key, secret, token = (source.get(name) or None for name in names)
        if key is not None and secret is not None:
            return BucketKeys(key, SecretStr(secret), None if token is None else SecretStr(token))
    unfollowed = next((name for name in _NOT_KEYS if name in profile), None)
    if unfollowed is not None:
        raise ConfigError(
            f"The profile '{_profile_name(environ)}' has no keys but {unfollowed}, which is not followed.",
            remedy='Run: eval "$(aws configure export-credentials --format env)".',
        )
    if _is_true(environ.get("AWS_EC2_METADATA_DISABLED")) and not _has_role(environ):
        raise ConfigError(
            "There are no credentials for the bucket.",
            remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
        )
    return None


def _has_role(environ: Mapping[str, str]) -> bool:
    """True if the environment names a source from which the client can get a role's credentials."""
    return (
        _first(
            environ,
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        )
        is not None
    )


def _profile_name(environ: Mapping[str, str]) -> str:
    return _first(environ, "AWS_PROFILE", "AWS_DEFAULT_PROFILE") or "default"


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of the chosen AWS profile in both files; `credentials` overrides `config`. Raises
    ConfigError.
    """
    name = _profile_name(environ)
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    found: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        named = environ.get(variable)
        path = Path(named) if named else None if home is None else home / ".aws" / file
        if path is not None:
            found |= _section(path, section)
    if not found and _first(environ, "AWS_PROFILE", "AWS_DEFAULT_PROFILE") is not None:
        raise ConfigError(
            f"There is no profile '{name}' in ~/.aws/credentials or ~/.aws/config.",
            remedy="Check AWS_PROFILE.",
        )
    return found


def _section(path: Path, section: str) -> dict[str, str]:
    """Settings in one section of a file; empty if the file or the section is missing. Raises ConfigError."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # Not the parser's own words: they quote the line.
        why = error.strerror if isinstance(error, OSError) else "it does not parse"
        raise ConfigError(
            f"'{path}' cannot be read: {why}.", remedy="Repair it, or set the keys by hand."
        ) from None
    return dict(parser[section]) if parser.has_section(section) else {}


def _first(environ: Mapping[str, str], *names: str) -> str | None:
    """Value of the first non-empty variable among `names`; None if all are empty or missing."""
    return next((environ[name] for name in names if environ.get(name)), None)


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() in ("true", "1", "yes")


def _seconds(text: str | None) -> float:
    try:
        seconds = DEFAULT_TIMEOUT_S if not text else float(text)
    except ValueError:
        seconds = -1.0
    if not 0.1 <= seconds <= 3600:
        raise ConfigError(f"FLOWDIFF_BUCKET_TIMEOUT={text} is no number of seconds.", remedy="Write 30.")
    return seconds
