"""The table of the attacks, printed at the end, and the Airflow home that they attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_home import home
from campaigns.hostile.attack import NOT_RUN, SEED, VARIANTS, Attack, table

__all__ = ["home"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "campaigns/hostile" in item.path.as_posix():
            item.add_marker(pytest.mark.campaign)
            if not VARIANTS:
                item.add_marker(pytest.mark.skip(reason=NOT_RUN))


@pytest.fixture(scope="session")
def attacks() -> Iterator[list[Attack]]:
    played: list[Attack] = []
    yield played
    print(f"\n\nseed {SEED}\n{table(played)}")


@pytest.fixture
def attack(attacks: list[Attack]) -> Callable[[str], Attack]:
    """Begin an attack, which the table then has."""

    def begin(name: str) -> Attack:
        attacks.append(Attack(name))
        return attacks[-1]

    return begin
