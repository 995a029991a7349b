"""How often the tasks of a run ask the warehouse. docs/warehouse.md has the table."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from ml_metrics.airflow import load_mail_settings
from ml_metrics.alerts import RunNotifier
from ml_metrics.pipeline import RunState, steps
from ml_metrics.warehouse import Warehouse, open_warehouse
from simulated_runs import good, run_of, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs" / "warehouse.md"
ROW = re.compile(r"\| `(?P<task>\w+)` \| (?P<connections>\d+) \| (?P<statements>\d+) \|")


@contextmanager
def counted(warehouse: Warehouse) -> Iterator[dict[str, int]]:
    """Count the connections and the statements of a warehouse."""
    engine, counts = warehouse.database.store._engine, {"connections": 0, "statements": 0}

    def count(what: str, statement: str = "") -> None:
        counts[what] += not statement.startswith("BEGIN")

    event.listen(engine, "connect", lambda *_: count("connections"))
    event.listen(engine, "before_cursor_execute", lambda _, __, statement, *___: count("statements", statement))
    yield counts


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_task_has_one_connection_and_few_statements(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = f"sqlite:///{tmp_path}/w.db" if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
    simulated = good("bad", accuracy_final=0.5)
    folder, run = simulate(1, simulated), run_of(1)
    tasks: dict[str, Any] = {
        "judge_run": lambda opened: steps.judge(simulated.test, run, RunState(folder), opened),
        "load_history": lambda opened: steps.load(simulated.test, run, RunState(folder), opened),
        "assert_success": lambda opened: RunNotifier(run, RunState(folder), opened, load_mail_settings()).post_due(
            simulated.test
        ),
    }
    found = {}
    for task, perform in tasks.items():
        with open_warehouse(address) as warehouse, counted(warehouse) as counts:
            perform(warehouse)
        found[task] = tuple(map(str, counts.values()))
    documented = {row["task"]: (row["connections"], row["statements"]) for row in ROW.finditer(DOCS.read_text())}
    assert found == documented
