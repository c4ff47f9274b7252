"""A client of one bucket, from its settings. Secrets go in here and come out nowhere."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from schemas.errors import LakeError
from stitch.lake.bucket.bucket_settings import BucketSettings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config, S3Store


def client_of(settings: BucketSettings, retries: int) -> S3Store:
    """A client of the bucket, relative to the lake's prefix. Raises ConfigError, LakeError."""
    from obstore.store import S3Store

    options: ClientConfig = {
        "timeout": timedelta(seconds=settings.timeout_s),
        "connect_timeout": timedelta(seconds=min(5.0, settings.timeout_s)),
        "allow_http": (settings.endpoint or "").startswith("http://"),
    }
    if settings.ca_file is not None:
        options["root_certificate"] = _certificates(settings.ca_file)
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": settings.virtual_hosted,
    }
    if settings.endpoint is not None:
        config["endpoint"] = settings.endpoint
    if settings.anonymous:
        config["skip_signature"] = True
    if settings.keys is not None:
        config["access_key_id"] = settings.keys.access_key_id
        config["secret_access_key"] = settings.keys.secret.get_secret_value()
        if settings.keys.token is not None:
            config["session_token"] = settings.keys.token.get_secret_value()
    return S3Store(
        settings.bucket,
        prefix=settings.prefix or None,
        config=config,
        client_options=options,
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=4 * settings.timeout_s)},
    )


def _certificates(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a name from the environment, as it is
            return file.read()
    except OSError as error:
        raise LakeError(
            f"The certificates '{path}' cannot be read: {error.strerror}.", remedy="Check AWS_CA_BUNDLE."
        ) from error
