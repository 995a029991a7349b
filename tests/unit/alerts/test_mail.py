"""Names of messages, for files and headers."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.channels.mail import as_mail
from ml_metrics.alerts.compose import compose
from ml_metrics.store.markers import file_name
from unit.alerts.reports import KEY, REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
keys = st.text(max_size=150) | st.builds(
    lambda letters, times: letters * times, st.sampled_from(["x", "-", ".", "a b", "a-b"]), st.integers(1, 200)
)


def test_the_key_of_a_run_s_message_is_its_name() -> None:
    key = f"{KEY}-001-broken-0123456789abcdef"
    assert file_name(key) == key
    assert as_mail(replace(MESSAGE, key=key))["Message-ID"] == f"<{key}@ml-metrics.invalid>"


def test_the_same_message_has_the_same_id_each_time() -> None:
    assert as_mail(MESSAGE)["Message-ID"] == as_mail(MESSAGE)["Message-ID"]


def test_keys_that_differ_only_at_their_ends_have_different_names() -> None:
    names = {file_name(f"digest-{'x' * 150}-{number}") for number in range(100)}
    assert len(names) == 100
    assert len({file_name(key) for key in ("a b", "a-b", "a/b", "a--b", "a\nb", "-a-b", "a-b.", "a\ud83db")}) == 8


@given(keys, keys)
def test_two_keys_never_have_one_name(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@given(keys)
def test_a_name_is_safe_in_paths_headers_and_comments(key: str) -> None:
    name = file_name(key)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name)
    assert "--" not in name
    assert len(name) <= 120


def test_halves_of_characters_do_not_keep_a_mail() -> None:
    mail = as_mail(replace(MESSAGE, text="half \ud83d", html="<p>half \ud83d</p>"))
    assert b"half ?" in mail.as_bytes()
