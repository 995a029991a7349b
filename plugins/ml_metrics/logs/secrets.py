"""Secrets in log output: known values, and what looks like a credential, are replaced before a line is stored."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MASK = "***"
MIN_SECRET_LENGTH = 5
"""Shorter values occur in ordinary words and numbers, as in Airflow's own masker."""
MIN_ENCODED_LENGTH = 8
"""Shorter values are not looked for in base64 or hexadecimal: those letters occur in ordinary words, too."""
SENSITIVE_WORDS = frozenset({
    "password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "apikey", "authorization", "credential",
    "credentials",
})  # fmt: skip
SENSITIVE_KEYS = frozenset({"api", "access", "private", "secret", "auth", "signing", "encryption"})
"""The parts of a sensitive key: `API_KEY` is sensitive, `PRIMARY_KEY` is not."""
NOT_SECRET_ENDS = frozenset({"file", "path", "dir", "name", "id", "count", "length", "size"})
"""`TOKEN_FILE` holds the place of a token, not the token."""

SHAPES = re.compile(
    r"(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+"
    r"|\b(?:password|passwd|api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|(?:auth|access|api|refresh)[_-]?token"
    r"|client[_-]?secret)[\"']?\s*[:=]\s*[\"']?"
    r"|\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:(?=[^\s/@]{1,500}@))"
    r"(?P<secret>[^\s\"'@,;&]+)"
    r"|\b(?P<alone>gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|ya29\.[\w-]{20,}"
    r"|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}|sk-[\w-]{20,}|eyJ[\w-]{10,200}\.eyJ[\w-]{10,4000}\.[\w-]+)",
    re.IGNORECASE,
)
"""Headers, assignments, addresses with a password, and the tokens of well-known services."""


@dataclass(frozen=True)
class Secrets:
    """The known secrets of a workload, and the names of those that are not known."""

    values: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    """The variables whose values only Kubernetes knows, so that they cannot be masked."""
    also: Callable[[str], str] = str
    """A masker of the caller, such as Airflow's own."""
    _pattern: re.Pattern[str] | None = field(init=False, default=None, compare=False)

    def __post_init__(self) -> None:
        """Prepare one pattern for all values, the longest first: one value may begin another."""
        parts = {form for value in self.values for part in (value.strip(), *_lines(value)) for form in _forms(part)}
        long_enough = sorted(
            (part for part in parts if len(part) >= MIN_SECRET_LENGTH), key=lambda one: (-len(one), one)
        )
        if long_enough:
            object.__setattr__(self, "_pattern", re.compile("|".join(map(re.escape, long_enough))))

    def masked(self, text: str) -> str:
        """Return the text with a mask in place of each secret."""
        return self.also(SHAPES.sub(_mask, self.without_values(text)))

    def without_values(self, text: str) -> str:
        """Return the text with a mask in place of the known values alone, which is fast enough for whole logs."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    @property
    def longest(self) -> int:
        """The length of the longest form of a known value."""
        return max((len(form) for value in self.values for form in _forms(value)), default=0)


NONE = Secrets()


def is_sensitive(name: str, more: Iterable[str] = ()) -> bool:
    """Return whether a variable holds a secret, by its name. `more`: names that the installation adds."""
    lower = name.lower()
    if any(one and one in lower for one in more):
        return True
    words = [word for word in re.split(r"[^a-z0-9]+", lower) if word]
    if not words or words[-1] in NOT_SECRET_ENDS:
        return False
    keys = any(first in SENSITIVE_KEYS and second == "key" for first, second in pairwise(words))
    return keys or not SENSITIVE_WORDS.isdisjoint(words)


def _lines(value: str) -> list[str]:
    """Return the lines of a value of several lines, such as a private key: a log shows one at a time."""
    return [line.strip() for line in value.splitlines()] if "\n" in value else []


def _forms(value: str) -> Iterator[str]:
    """Yield a value as programs print it: plain, in an address, in JSON, in Python, in hexadecimal, in base64."""
    plain = value.encode(errors="replace")
    yield from {value, quote(plain), quote(plain, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
    if len(value) < MIN_ENCODED_LENGTH:
        return
    yield plain.hex()
    yield plain.hex().upper()
    for offset in range(3):
        # in a longer text, such as `user:password`, the letters at both ends belong to the neighbours as well
        whole = base64.b64encode(b"\0" * offset + plain).decode()
        spoiled = len(plain + b"\0" * offset) % 3
        inner = whole[(0, 2, 3)[offset] : len(whole) - (0, 3, 2)[spoiled]]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def _mask(match: re.Match[str]) -> str:
    return MASK if match["alone"] else f"{match['before']}{MASK}"
