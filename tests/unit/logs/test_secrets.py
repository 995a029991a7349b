from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.logs.secrets import MASK, Secrets, is_sensitive


@pytest.mark.parametrize(
    "name", ["API_KEY", "WANDB_API_KEY", "TOKEN", "HF_TOKEN", "DB_PASSWORD", "client-secret", "AUTHORIZATION"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZER", "MAX_TOKENS", "PRIMARY_KEY", "TOKEN_FILE", "SECRET_NAME", "MODEL_DIR", "KEY", "", "MONKEY"]
)
def test_names_of_other_variables(name: str) -> None:
    assert not is_sensitive(name)


def test_names_that_the_installation_adds() -> None:
    assert is_sensitive("FLEET_PIN", ["pin"])
    assert not is_sensitive("FLEET_PIN", [""])


def test_known_values_are_masked_the_longest_first() -> None:
    secrets = Secrets(frozenset({"hunter2", "hunter2-and-more", "abc", "line one of a key\nline two of a key"}))
    assert secrets.masked("x hunter2-and-more hunter2 abc") == f"x {MASK} {MASK} abc", "short values are ordinary words"
    assert secrets.masked("  line two of a key") == f"  {MASK}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("{'api_key': 'abc123', 'x': 1}", "{'api_key': '***', 'x': 1}"),
        ("password=hunter2 user=me", "password=*** user=me"),
        ("postgres://me:hunter2@host/db", "postgres://me:***@host/db"),
        ("using ghp_" + "a" * 36, "using ***"),
        ("hf_" + "b" * 34 + " loaded", "*** loaded"),
        ("key AKIA" + "A" * 16, "key ***"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "jwt ***"),
    ],
)
def test_what_looks_like_a_credential_is_masked(line: str, expected: str) -> None:
    assert Secrets().masked(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "tokens_per_second: 1234.5",
        "ModuleNotFoundError: No module named 'secrets_of_training'",
        "loading https://host:8080/tokenizer",
        "step 10: token accuracy = 0.5, password reset data set",
        "KeyError: 'api_key'",
    ],
)
def test_ordinary_lines_stay(line: str) -> None:
    assert Secrets().masked(line) == line


@given(st.lists(st.text(min_size=5).filter(lambda one: one.strip() == one and len(one.splitlines()) == 1)), st.text())
def test_no_known_value_remains(values: list[str], text: str) -> None:
    masked = Secrets(frozenset(values)).masked(text + "".join(values))
    assert not any(value in masked for value in values if "*" not in value)
