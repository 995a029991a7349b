"""The table of the attacks, printed at the end, and the Airflow home that they attack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_home import home
from campaigns.hostile.attack import NOT_RUN, VARIANTS, Attack, table

__all__ = ["home"]
PLAYED = pytest.StashKey[list[Attack]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "campaigns/hostile" in item.path.as_posix():
            item.add_marker(pytest.mark.campaign)
            if not VARIANTS:
                item.add_marker(pytest.mark.skip(reason=NOT_RUN))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if played := config.stash.get(PLAYED, []):
        terminalreporter.section("attacks")
        terminalreporter.write_line(table(played))


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Callable[[str], Attack]:
    """Begin an attack, which the table then has."""
    played = request.config.stash.setdefault(PLAYED, [])

    def begin(name: str) -> Attack:
        played.append(Attack(name, kind=request.path.stem.removeprefix("test_")))
        return played[-1]

    return begin
