"""Texts of the client, as it really raised them, become one line, an errno, and what a put may have done."""

from __future__ import annotations

import errno

import pytest

from stitch.lake.bucket.bucket_store import failure_of

PUT = "Generic S3 error: Error performing PUT http://127.0.0.1:1/lakes/p/a in 3.8ms - "
ANSWER = (
    PUT
    + "Server returned non-2xx status code: {}: <Error><Code>{}</Code></Error>\n\nDebug source:\nGeneric {{}}"
)


def lost(kind: str) -> str:
    debug = f"Debug source:\nGeneric {{ inner: Http( HttpError {{ kind: {kind}, source: E {{ kind: Request"
    return f"{PUT}HTTP error: error sending request\n\n{debug}"


@pytest.mark.parametrize(
    ("text", "number", "words", "certain", "passing"),
    [
        (lost("Connect"), errno.EHOSTUNREACH, "there is no connection", True, True),
        (lost("Request"), errno.ECONNRESET, "the connection was lost", False, True),
        (lost("Timeout"), errno.ETIMEDOUT, "did not answer in time", False, True),
        ("Generic S3 error: something new", errno.ECONNRESET, "the connection was lost", False, True),
        (
            ANSWER.format("403 Forbidden", "AccessDenied"),
            errno.EACCES,
            "denied (403 AccessDenied)",
            True,
            False,
        ),
        (ANSWER.format("401 Unauthorized", "X"), errno.EACCES, "denied (401 X)", True, False),
        (ANSWER.format("400 Bad Request", "InvalidAccessKeyId"), errno.EACCES, "denied", True, False),
        (ANSWER.format("404 Not Found", "XAdminUserNotFound"), errno.EACCES, "denied", True, False),
        (ANSWER.format("404 Not Found", "NoSuchUpload"), errno.EIO, "404 NoSuchUpload", True, False),
        (ANSWER.format("404 Not Found", "NoSuchBucket"), errno.ENXIO, "no such bucket", True, False),
        (ANSWER.format("404 Not Found", "NoSuchKey"), errno.ENOENT, "it is not there", True, False),
        (ANSWER.format("409 Conflict", "ConditionalRequestConflict"), errno.EAGAIN, "409", True, True),
        (ANSWER.format("500 Internal", "InternalError"), errno.EAGAIN, "500 InternalError", False, True),
        (ANSWER.format("503 Slow Down", "SlowDown"), errno.EAGAIN, "503 SlowDown", False, True),
        (ANSWER.format("400 Bad Request", "EntityTooLarge"), errno.EIO, "400 EntityTooLarge", True, False),
        (PUT + "Received redirect without LOCATION, this", errno.ENXIO, "another region", True, False),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token in 1ms - status code: 403",
            errno.EACCES,
            "there are no credentials",
            True,
            False,
        ),
    ],
)
def test_a_text_becomes_an_error(text: str, number: int, words: str, certain: bool, passing: bool) -> None:
    failure = failure_of(Exception(text), "s3://lakes/p/a")
    assert failure.error.errno == number
    assert words in str(failure.error.strerror)
    assert failure.error.filename == "s3://lakes/p/a"
    assert "\n" not in str(failure.error)
    assert "Debug" not in str(failure.error)
    assert (failure.certain, failure.passing) == (certain, passing)
    assert isinstance(failure.error, FileNotFoundError) == (number == errno.ENOENT)
