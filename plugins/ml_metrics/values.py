"""The rules for values.

A naive time is UTC, only finite numbers are stored, a hash stands for a text in a key, and text
from elsewhere is shown without control characters.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime

_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def as_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC. A naive time is taken to be UTC, as all times of this package are."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def finite(value: float | None) -> float | None:
    """Return the number, or None for NaN and the infinities, which neither JSON nor every table can hold."""
    return value if value is not None and math.isfinite(value) else None


def short_hash(text: str) -> str:
    """Return 16 letters that stand for a text in keys and names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_in(image: str) -> str:
    """Return the digest in the id of an image, `docker.io/library/python@sha256:...`; empty if it has none."""
    found = re.search(r"(?:^|[@/])(sha256:[0-9a-f]{64})\Z", image)
    return found[1] if found else ""


def short_digests(text: str) -> str:
    """Return a text with the beginnings of its digests: they tell versions apart as well."""
    return _DIGEST.sub(r"\1…", text)


def printable(text: str) -> str:
    """Return the text with control characters, line ends, marks of direction and halves of letters escaped.

    A name from elsewhere must neither move the cursor of a terminal nor forge a line.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
