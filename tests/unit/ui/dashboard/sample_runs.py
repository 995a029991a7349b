"""Sample runs for the pages, the pages that show them, and users with chosen permissions."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.warehouse import run_record

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from ml_metrics.warehouse import RunRecord, Warehouse

TODAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
STEADY, SHIFTED, FAILING = "pt-steady", "tf-shifted", "tf-failing"


def run_of(test: str, days_ago: float) -> Run:
    return Run(test, test, f"by_hand__{days_ago:g}", "local")


def recorded(
    test: str,
    days_ago: float,
    value: float = 10.0,
    *,
    upper: float = 11.0,
    status: JobStatus = JobStatus.SUCCESS,
    metric: str = "loss_final",
    owner: str = "vision-team",
    reason: str | None = None,
    more: dict[str, float] | None = None,
    **workload: Any,
) -> RunRecord:
    ended = TODAY - timedelta(days=days_ago)
    bounds = Bounds(upper=upper)
    outcome = Outcome.PASS if bounds.contains(value) else Outcome.FAIL
    outcome = outcome if status is JobStatus.SUCCESS else Outcome.SKIPPED
    values = {metric: value, **(more or {})}
    return run_record(
        run_of(test, days_ago),
        Workload(
            status, reason, started_at=ended - timedelta(minutes=30), ended_at=ended,
            queued_at=ended - timedelta(minutes=31), **{"image": "image:1", **workload},
        ),
        [Metric(name, one, name, "final") for name, one in values.items()],
        [Verdict(metric, outcome, value, bounds, f"less than {upper:g}", 9)],
        {"note": "made up"},
        test_type="train",
        accelerator="v5litepod-16",
        framework_version=test.partition("-")[0],
        owner=owner,
    )  # fmt: skip


HOSTILE_NAMES = ["../../etc/passwd", "a/b", "A", "a b", "ä", "x" * 300, "con", ".", "", "a\x00b", '"><script>']
PAGES = (
    "/",
    "/inbox",
    "/?by=runs",
    f"/test?test={SHIFTED}",
    f"/charts?test={SHIFTED}&metric=loss_final",
    f"/sparklines?test={SHIFTED}",
    f"/curves?run={run_of(SHIFTED, 0).key}",
    f"/run?run={run_of(SHIFTED, 0).key}",
    f"/compare?kind=images&test={SHIFTED}&base=image:1&candidate=image:2",
    "/compare?tests=*&metrics=*",
    "/fleet?view=nodes&metric=loss_final",
    "/fleet",
    "/night",
    f"/dag?dag_id={SHIFTED}",
    f"/dag-run?dag_id={SHIFTED}&run_id={run_of(SHIFTED, 0).run_id}",
)


def csv_rows(browser: TestClient, page: str) -> list[dict[str, str]]:
    answer = browser.get(page)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def submit(browser: TestClient, action: str, fields: dict[str, Any], page: str = "/inbox", **headers: str) -> Any:
    """Send a form with the token of a page, if it has one."""
    found = re.search(r'name="csrf_token" value="([^"]+)"', browser.get(page).text)
    return browser.post(f"/{action}", data={"csrf_token": found[1] if found else "", **fields}, headers=headers)


def fill(warehouse: Warehouse) -> None:
    """Load a test that passes, one whose level changed with its image, and one whose workload fails."""
    warehouse.load_all([recorded(STEADY, day, 10 + day % 3 / 10) for day in range(20)])
    warehouse.load_all(
        [
            recorded(SHIFTED, day, (14.0 if day < 4 else 10.0) + day % 3 / 10, owner="speech-team",
                     image="image:2" if day < 4 else "image:1")
            for day in range(20)
        ]
    )  # fmt: skip
    warehouse.load(recorded(FAILING, 0, status=JobStatus.FAILURE, reason="OOMKilled"))
    warehouse.load(recorded(FAILING, 1))
    warehouse.incidents.report(SHIFTED, run_of(SHIFTED, 0).key, fingerprint="x", reasons=["out_of_bounds:loss_final"])


@dataclass(frozen=True)
class User:
    name: str

    def get_name(self) -> str:
        return self.name

    def get_id(self) -> str:
        return f"id of {self.name}"


@dataclass
class Rights:
    """A fake of Airflow's auth manager."""

    dags: frozenset[str] | None = None
    """The DAGs that the user may read; None for all."""
    may_change: bool = True
    requests: list[dict[str, Any]] = field(default_factory=list)

    def is_authorized_dag(self, *, method: str, user: User, access_entity: Any = None, details: Any = None) -> bool:
        self.requests.append({"method": method, "dag": details.id if details else None})
        if method != "GET" and not self.may_change:
            return False
        return self.dags is None or (details is not None and details.id in self.dags)

    def get_authorized_dag_ids(self, *, user: User, method: str) -> set[str]:
        return set(self.dags or ())
