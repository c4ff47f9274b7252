"""Settings of security as kafka-python takes them. Secrets are read here, at the last moment."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from ingest.kafka.kafka_settings import KafkaSecurity, Mechanism
from schemas.errors import ConfigError


def client_security(security: KafkaSecurity) -> dict[str, Any]:
    """Keyword arguments of every kafka-python client. Raises ConfigError for files that cannot be used."""
    arguments: dict[str, Any] = {"security_protocol": security.protocol.value}
    if security.protocol.has_tls:
        arguments["ssl_context"] = tls_context(security)
        arguments["ssl_check_hostname"] = security.check_hostname
    if security.protocol.has_sasl:
        arguments["sasl_mechanism"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            from ingest.kafka.bearer_tokens import token_provider

            arguments["sasl_oauth_token_provider"] = token_provider(security)
        else:
            arguments["sasl_plain_username"] = security.username
            arguments["sasl_plain_password"] = needed_secret(security, "password")
    return arguments


SECRETS: Final = {
    "password": "FLOWDIFF_KAFKA_SECURITY_PASSWORD",
    "key_password": "FLOWDIFF_KAFKA_SECURITY_KEY_PASSWORD",
    "client_secret": "FLOWDIFF_KAFKA_SECURITY_CLIENT_SECRET",
}
"""Variables of the environment with secrets; files are the other way."""


def tls_context(security: KafkaSecurity) -> ssl.SSLContext:
    """TLS 1.2 or newer, certificates checked. Raises ConfigError."""
    context = _context_of(security.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    if security.certificate_file is not None:
        password = secret(security.key_password, security.key_password_file)
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, password or (lambda: ""))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"The certificate '{security.certificate_file}' or its key cannot be used: {_why(error)}.",
                remedy="Name PEM files, and the password of an encrypted key.",
            ) from error
    return context


def _context_of(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The authorities in '{ca_file}' cannot be used: {_why(error)}.", remedy="Name a PEM file."
        ) from error


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def needed_secret(security: KafkaSecurity, name: str) -> str:
    """The secret in a field or its file. Raises ConfigError where there is none."""
    found = secret(getattr(security, name), getattr(security, f"{name}_file"))
    if found is None:
        raise ConfigError(
            f"{security.mechanism} needs a {name.replace('_', ' ')}.",
            remedy=f"Set {SECRETS[name]}, or name a file: {name}_file.",
        )
    return found


def secret(value: SecretStr | None, file: Path | None) -> str | None:
    """A secret from its setting or from its file. Raises ConfigError; never tells the secret."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"The secret in '{file}' cannot be read: {why}.", remedy="Check the path."
        ) from error
