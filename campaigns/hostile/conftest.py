"""The table of the attacks, printed at the end, and the Airflow home that they attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest

from airflow_home import home
from campaigns.hostile.attack import NOT_RUN, VARIANTS, Attack, table

__all__ = ["home"]
PLAYED: list[Attack] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "campaigns/hostile" in item.path.as_posix():
            item.add_marker(pytest.mark.campaign)
            if not VARIANTS:
                item.add_marker(pytest.mark.skip(reason=NOT_RUN))


@pytest.fixture
def attack(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Attack]]:
    """Begin an attack, which the table then has."""
    begun: list[Attack] = []

    def begin(name: str) -> Attack:
        begun.append(Attack(name, kind=request.path.stem.removeprefix("test_")))
        return begun[-1]

    yield begin
    request.node.user_properties += [("attack", asdict(one)) for one in begun]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what a test has played, also in a process of its own."""
    if report.when == "teardown":
        PLAYED.extend(Attack(**figures) for name, figures in report.user_properties if name == "attack")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PLAYED:
        terminalreporter.section("attacks")
        terminalreporter.write_line(table(sorted(PLAYED, key=lambda one: (one.kind, one.name))))
