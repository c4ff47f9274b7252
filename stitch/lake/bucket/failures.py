"""Turn what the client raises into the OSError it is: one line that says what to do, and its errno.

The client's own texts are many lines with a debug print, and name no cause of a lost connection. What they
do hold, a status, S3's code, the kind of a transport failure, is told apart here; nothing else is passed on.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import Final

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_KIND: Final = re.compile(r"kind: (Connect|Timeout|Request|Decode|Interrupted|Unknown)\b")
_OF_A_ROLE: Final = (
    "/latest/api/token",
    "/latest/meta-data/",
    "//169.254.169.254",
    "//169.254.170.2",
    "AssumeRoleWithWebIdentity",
)
"""The client was asking the machine who it is."""
_DENIED: Final = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "XAdminUserNotFound")
"""The last is versitygw's word for a key that nobody has, and comes with 404."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request."""

    error: OSError
    """What to raise."""
    certain: bool
    """Whether a put that failed so has stored nothing."""
    passing: bool
    """Whether the same request may work in a moment."""


def failure_of(error: BaseException, url: str) -> Failure:
    """What a failed request on `url` means."""
    text = str(error)
    status = int(match[1]) if (match := _STATUS.search(text)) else None
    code = match[1] if (match := _CODE.search(text)) else ""
    told = f"{status} {code}".strip()
    if any(sign in text for sign in _OF_A_ROLE):
        why = "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        return Failure(OSError(errno.EACCES, why, url), certain=True, passing=False)
    if code == "NoSuchBucket":
        why = "there is no such bucket; make it, or check the name and AWS_ENDPOINT_URL"
        return Failure(OSError(errno.ENXIO, why, url), certain=True, passing=False)
    if status in (401, 403) or code in _DENIED:
        why = f"access is denied ({told}); check the credentials and what they may do with the bucket"
        return Failure(OSError(errno.EACCES, why, url), certain=True, passing=False)
    if "redirect" in text or status in (301, 307):
        why = "the bucket is in another region; set AWS_REGION"
        return Failure(OSError(errno.ENXIO, why, url), certain=True, passing=False)
    if status == 404 and code in ("", "NoSuchKey"):
        return Failure(FileNotFoundError(errno.ENOENT, "it is not there", url), certain=True, passing=False)
    if status is not None:
        # A server, or what stands before it, may fail after it stored.
        server = status >= 500 or status in (408, 409, 429)
        why = f"the store answered {told}" + ("; try again later" if server else "")
        number = errno.EAGAIN if server else errno.EIO
        return Failure(OSError(number, why, url), certain=status < 500, passing=server)
    return _of_connection(text, url)


def _of_connection(text: str, url: str) -> Failure:
    match = _KIND.search(text)
    kind = match[1] if match else ""
    if kind == "Connect":
        why = "there is no connection to the store; check AWS_ENDPOINT_URL and the network"
        return Failure(OSError(errno.EHOSTUNREACH, why, url), certain=True, passing=True)
    if kind == "Timeout":
        why = "the store did not answer in time; try again, or raise FLOWDIFF_BUCKET_TIMEOUT"
        return Failure(OSError(errno.ETIMEDOUT, why, url), certain=False, passing=True)
    why = "the connection was lost; try again"
    return Failure(OSError(errno.ECONNRESET, why, url), certain=False, passing=True)
