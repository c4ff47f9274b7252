"""Sign messages by Standard Webhooks: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

_ENCODED: Final = b"whsec_"
"""Prefix of a secret whose rest is base64."""


def signing_key(secret: bytes) -> bytes:
    """Decode a secret to the key of the HMAC. Raises ValueError, whose text contains no part of the
    secret.
    """
    key = secret
    if secret.startswith(_ENCODED):
        try:
            key = base64.b64decode(secret.removeprefix(_ENCODED), validate=True)
        except binascii.Error:
            raise ValueError(
                "what follows 'whsec_' is not base64 (letters, digits, + and /, = at its end)"
            ) from None
    if not key:
        raise ValueError("the key is empty")
    return key


def signed(body: bytes, id_: str, at_s: int, key: bytes) -> Mapping[str, str]:
    """Headers of Standard Webhooks: the id, the time of sending, and an HMAC over both and the body."""
    digest = hmac.new(key, f"{id_}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
