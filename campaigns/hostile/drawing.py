"""Variants that hypothesis draws, as a list: many are played together, in one run or one folder."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from campaigns.hostile.attack import SEED

Drawn = TypeVar("Drawn")


def drawn(strategy: st.SearchStrategy[Drawn], count: int) -> list[Drawn]:
    """Return so many different values, always the same for the same seed."""
    found: list[Drawn] = []

    @seed(SEED)
    @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def collect(value: Drawn) -> None:
        found.append(value)

    collect()
    return found
