"""Airflow's variables in a dictionary, for tests without Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable

if TYPE_CHECKING:
    import pytest


def remembered_variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Keep the variables of a test in a dictionary, and return it."""
    known: dict[str, str] = {}

    def read(key: str, default: str | None = None) -> str | None:
        return known.get(key, default)

    def write(key: str, value: str, **_: str) -> None:
        known[key] = value

    monkeypatch.setattr(Variable, "get", read)
    monkeypatch.setattr(Variable, "set", write)
    return known
