"""The recorded attributes of runs, and the text of a difference between two runs.

Attributes are texts by name: `image`, `image_digest`, `node_type`, `accelerator`, `framework`, and each key of a run's
metadata, such as `param.epochs`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ml_metrics.values import short_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN_KEYS = frozenset({"env", "secrets", "params"})
"""Keys of a test file whose values may be secret."""
SECRET = re.compile(r"token|secret|passw|credential|api.?key|private.?key", re.IGNORECASE)
"""Names of attributes whose values may be secret."""
MAX_LENGTH = 80
MAX_DIFFERENCES = 8
FIRST = ("image", "image_digest", "node_type", "accelerator", "framework")
"""Named before all others."""
UNIQUE_RUNS = 5
"""An attribute that is different in each of so many runs names the run, and explains no change."""


def differences(attributes: Mapping[str, Mapping[str, str]], before: str, after: str) -> tuple[str, ...]:
    """Return the attributes that differ between two runs, the most telling first."""
    old, new = attributes.get(before) or {}, attributes.get(after) or {}
    names = [name for name in {*old, *new} if (old.get(name) or "") != (new.get(name) or "")]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    texts = [change_text(name, old.get(name), new.get(name)) for name in names[:MAX_DIFFERENCES]]
    more = len(names) - MAX_DIFFERENCES
    return (*texts, f"{more} more") if more > 0 else tuple(texts)


def change_text(name: str, before: object, after: object, arrow: str = "->") -> str:
    """Return a change as text: `image: a -> b`; without the values if they may be secret."""
    if name.removeprefix("test file ") in HIDDEN_KEYS or SECRET.search(name):
        return f"{name} (values not shown)"
    return f"{name}: {_cut(before)} {arrow} {_cut(after)}"


def without_unique(attributes: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return attributes without those that only name the run because each run has another value."""
    values: dict[str, list[str]] = {}
    for of_run in attributes.values():
        for name, value in of_run.items():
            values.setdefault(name, []).append(value)
    unique = {name for name, each in values.items() if len(set(each)) == len(each) >= UNIQUE_RUNS and name not in FIRST}
    return {run: {k: v for k, v in of_run.items() if k not in unique} for run, of_run in attributes.items()}


def _cut(value: object) -> str:
    text = short_digests(" ".join(str("none" if value in (None, "") else value).split()))
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
