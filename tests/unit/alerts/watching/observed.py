"""A folder of test files, a warehouse, and an Airflow that a test can change between two passes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import MailSettings, Outcome, Surroundings, watch
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.warehouse import open_warehouse, run_record

if TYPE_CHECKING:
    from ml_metrics.alerts.import_errors import DagImportError
    from ml_metrics.alerts.message import Message

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


class NotFoundError(Exception):
    """What Airflow raises for a DAG that does not exist."""

    error = SimpleNamespace(detail={"status_code": 404})


@dataclass
class Observed:
    """Everything that a pass looks at."""

    folder: Path
    now: datetime = NOW
    messages: list[Message] = field(default_factory=list)
    import_errors: list[DagImportError] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    next_run: datetime | None = None
    has_airflow: bool = True
    looked_again: int = 0

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        self.warehouse = open_warehouse(f"sqlite:///{self.folder}/warehouse.db")

    @property
    def root(self) -> Path:
        return self.folder / "metric_configs"

    def write(self, test: str, file: str = "", **content: Any) -> Path:
        path = self.root / (file or f"{test}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {"name": test, "image": "i", "command": [test], "owner": "vision", "emails": ["v@example.com"]}
        path.write_text(json.dumps({**known, "schedule": "0 3 * * *", **content}, indent=1))
        return path

    def passes(self, after: timedelta = QUARTER) -> Outcome:
        """Make the next pass, and forget the messages of the one before."""
        self.now += after
        self.messages.clear()
        outbox = Outbox(str(self.folder / "outbox"))
        mail = MailSettings((), outbox, "http://airflow/ml-metrics", ("duty@example.com",), "tests@example.com")
        around = Surroundings(
            self.root,
            dags_folder=self.folder / "dags",
            get_dag=self.get_dag if self.has_airflow else None,
            import_errors=self.import_errors,
            settle=self.settle,
        )
        return watch(self.warehouse, mail, around, self.now, self.messages.append)

    def get_dag(self, dag_id: str) -> Any:
        if dag_id in self.missing:
            raise NotFoundError
        return SimpleNamespace(
            is_paused=dag_id in self.paused, next_dagrun=self.next_run, relative_fileloc="ml_tests.py"
        )

    def settle(self, seconds: float) -> None:
        assert seconds > 0
        self.looked_again += 1

    def ran(self, test: str, ended: datetime, run_id: str = "scheduled__") -> None:
        run, workload = Run(test, test, f"{run_id}{ended}", "local"), Workload(JobStatus.SUCCESS, ended_at=ended)
        self.warehouse.load(run_record(run, workload, [], [], {}))

    @property
    def subjects(self) -> list[str]:
        return [message.subject.removeprefix("[ML Metrics] ") for message in self.messages]

    def incident(self, test: str) -> tuple[str, ...] | None:
        found = self.warehouse.incidents.find_open(f"definition:{test}")
        return found.reasons if found else None
