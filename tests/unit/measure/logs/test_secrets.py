from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.measure import Secrets, is_sensitive
from ml_metrics.measure.logs import MASK


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


@pytest.mark.parametrize("around", ["", "a", "user:", "me", "x" * 7])
@pytest.mark.parametrize("secret", ["hunter2/+=?>", "correct horse battery", "pässwörter-123", "12345678"])
def test_a_known_value_in_base64_or_hexadecimal_is_masked_wherever_it_begins(around: str, secret: str) -> None:
    """A masker that knows the plain value alone is passed by `echo $TOKEN | base64`."""
    secrets = Secrets(frozenset({secret}))
    plain = f"{around}{secret}{around}".encode()
    for encoded in (base64.b64encode(plain), base64.urlsafe_b64encode(plain)):
        masked = secrets.masked(f"sends {encoded.decode()} now")
        assert MASK in masked
        assert secret.encode()[2:-2] not in base64.urlsafe_b64decode(_padded(masked.split()[1].replace(MASK, "")))
    assert secrets.masked(plain.hex()) == f"{around.encode().hex()}{MASK}{around.encode().hex()}"
    assert (
        secrets.masked(plain.hex().upper()) == f"{around.encode().hex().upper()}{MASK}{around.encode().hex().upper()}"
    )


@pytest.mark.parametrize("secret", ['with "quotes" \\ and more', "spaces and/slashes+x", "ünïcode-secret"])
def test_a_known_value_in_an_address_or_in_json_is_masked(secret: str) -> None:
    secrets = Secrets(frozenset({secret}))
    for form in (quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1]):
        assert secrets.masked(f"<{form}>") == f"<{MASK}>"


def test_short_values_are_not_searched_in_base64() -> None:
    """`YWJjZGU` is `abcde`: so few letters occur by chance."""
    assert Secrets(frozenset({"abcde"})).masked("YWJjZGU") == "YWJjZGU"


def _padded(encoded: str) -> str:
    letters = encoded.replace("+", "-").replace("/", "_").rstrip("=")
    return letters[: len(letters) // 4 * 4]
