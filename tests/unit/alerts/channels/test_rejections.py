"""The errors of answers and of connections: what they say, and whether another try is worth it."""

from __future__ import annotations

from http.client import BadStatusLine, InvalidURL

import pytest

from ml_metrics.core.http import rejected, unreachable


@pytest.mark.parametrize(
    ("status", "transient"),
    [(399, False), (400, False), (407, False), (408, True), (425, True), (429, True), (499, False), (500, True)],
)
def test_a_status_says_whether_another_try_is_worth_it(status: int, transient: bool) -> None:
    error = rejected("x", status, {"retry-after": "7"}, "no")
    assert (error.transient, error.retry_after, error.unconfirmed) == (transient, 7 if transient else 0, False)


@pytest.mark.parametrize(
    ("status", "said"),
    [(299, "no"), (300, None), (399, None), (400, "no")],
)
def test_a_redirect_is_explained_in_our_words(status: int, said: str | None) -> None:
    ours = "redirects are not followed: the connection should have the final address"
    assert str(rejected("x", status, {}, "no")) == f"x answered {status} ({said or ours})"


@pytest.mark.parametrize(
    ("headers", "content", "transient"),
    [
        ({}, "you hit a Rate Limit", True),
        ({"retry-after": "1"}, "no", True),
        ({"retry-after": "0"}, "no", False),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "0"}, "no", False),
        ({"x-ratelimit-remaining": "0"}, "no", False),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999"}, "no", True),
        ({}, "no", False),
    ],
)
def test_forbidden_is_a_limit_of_the_rate_if_the_service_says_so(
    headers: dict[str, str], content: str, transient: bool
) -> None:
    assert rejected("x", 403, headers, content).transient is transient
    assert not rejected("x", 401, headers, content).transient, "of no other status"


def test_an_explanation_is_short_and_has_no_secret() -> None:
    assert str(rejected("x", 400, {}, "y" * 301)) == f"x answered 400 ({'y' * 300})"
    assert str(rejected("x", 400, {}, "a key  and\nmore", ("key",))) == "x answered 400 (a *** and more)"
    assert str(rejected("x", 400, {}, None)) == "x answered 400"


@pytest.mark.parametrize("unconfirmed", [True, False])
@pytest.mark.parametrize(
    ("error", "said", "transient"),
    [
        (TimeoutError(), "x took too long", True),
        (ConnectionResetError(), "x cannot be reached (ConnectionResetError)", True),
        (BadStatusLine("?"), "x cannot be reached (BadStatusLine)", True),
        (InvalidURL("a secret"), "x: its address or its key has characters that do not belong there", False),
        (ValueError("a secret"), "x: its address or its key has characters that do not belong there", False),
    ],
)
def test_a_missing_answer_is_an_error_without_the_address(
    error: Exception, said: str, transient: bool, unconfirmed: bool
) -> None:
    found = unreachable("x", error, unconfirmed=unconfirmed)
    assert (str(found), found.transient, found.unconfirmed) == (said, transient, transient and unconfirmed)
