"""Names of tests. A test's name is its DAG, its pods and its history: short, and fit for all three."""

from __future__ import annotations

import re

MAX_NAME = 46
"""A Kubernetes Job of a CronJob may have 63 characters, of which a time and a suffix take the rest."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check_name(name: str) -> str:
    """The name itself, if it fits. Raises ValueError with a suggestion."""
    if len(name) > MAX_NAME:
        raise ValueError(
            f"the name {name!r} has {len(name)} characters, at most {MAX_NAME} are allowed; set a shorter `name`"
        )
    if not _NAME.fullmatch(name):
        near = as_name(name)
        meant = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"the name {name!r} must be lower-case letters, digits and '-', as in names of pods{meant}")
    return name


def as_name(text: str) -> str:
    """The nearest text that can be part of a name; empty if there is none."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def as_label(text: str) -> str:
    """The nearest text that can be the value of a Kubernetes label."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")
