"""Names of tests. The same name is used for the DAG, the pods and the history, so it must be valid for all three."""

from __future__ import annotations

import re

MAX_NAME = 46
"""Names in Kubernetes have at most 63 characters; the rest is for the suffixes of CronJobs, Jobs and pods."""
RESERVED = ("ml-metrics", "ml-messages", "ml_")
"""Names that begin so belong to the product, or look like those of its DAGs: `ml-metrics-digest`, `ml_messages`."""
CANNOT_BE_READ = "--cannot-be-read"
"""Follows the name of an invalid test whose own name belongs to another DAG."""


def check_name(name: str) -> str:
    """Raises ValueError with a suggestion."""
    if len(name) > MAX_NAME:
        raise ValueError(
            f"the name {name!r} has {len(name)} characters, at most {MAX_NAME} are allowed; set a shorter `name`"
        )
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        near = as_name(name)
        meant = f"; did you mean {near!r}?" if near else ""
        raise ValueError(
            f"the name {name!r} must consist of lower-case letters, digits and '-', like names of pods{meant}"
        )
    if is_reserved(name):
        raise ValueError(f"the name {name!r} is reserved for DAGs of the product; choose another")
    return name


def is_reserved(name: str) -> bool:
    return name.startswith(RESERVED) or name.endswith(CANNOT_BE_READ)


def as_name(text: str) -> str:
    """The nearest text that can be part of a name; empty if there is none."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def as_label(text: str) -> str:
    """The nearest text that can be the value of a Kubernetes label."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")


_PART = r"[^\s@,;:<>()\[\]\"\\\x00-\x1f\x7f-\x9f]+"
ADDRESS = rf"(?!.*=\?){_PART}@{_PART}"
"""Without the marks of names, comments, groups and lists, as `x<y>@example.com` would be sent to `y`; and without `=?`,
which begins a word that mail programs decode."""


def is_address(text: str) -> bool:
    """One mail address, without a name or a comment."""
    return re.fullmatch(ADDRESS, text) is not None
