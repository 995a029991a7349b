"""The results of runs for tracking servers: what is written, who gets it, and that alerts do not depend on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_pending
from ml_metrics.alerts.channels.mlflow import Mlflow
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.results import result_of
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.warehouse import StoredMessage
from servers.channels import Answer, Request, http_service
from servers.mlflow import MlflowService
from simulated_runs import BAD, good, notify_about, simulate
from unit.airflow.otel.decided_run import EPOCH, TEST, decided_run
from unit.alerts.mailbox import mails
from unit.measure.collect.run_folders import collected

PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"
WARNED = good("warned", memory_final=9.0)
RUN = Run("maxtext", "maxtext", "scheduled__2026", "prod")


def rows(occasion: str = "") -> list[StoredMessage]:
    with warehouse() as open_warehouse:
        found = open_warehouse.messages.since(datetime.now(UTC) - timedelta(days=1))
    return [one for one in found if not occasion or one.occasion == occasion]


def send() -> int:
    """Send what is pending, as a sender does once every pause is over."""
    with warehouse() as open_warehouse:
        open_warehouse.database.change(
            "UPDATE messages SET next_attempt = :past, channels = '{}' "
            "WHERE deployment = :deployment AND state = 'pending'",
            past=datetime.now(UTC) - timedelta(minutes=2),
        )
        return send_pending(open_warehouse, load_mail_settings(), seconds=60).sent


@pytest.fixture
def tracked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tracking server, and a connection that names it."""
    with http_service() as service:
        server = MlflowService(service)
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "outbox, mlflow")
        extra = json.dumps({"experiment": "nightly"})
        connection = {"conn_type": "http", "host": service.url, "password": "the-token-of-mlflow", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_MLFLOW", json.dumps(connection))
        yield server


def test_the_result_has_what_was_judged_the_cost_and_a_link(tmp_path: Path) -> None:
    result = result_of(TEST, RUN, decided_run(tmp_path), "https://airflow/ml-metrics")
    assert (result.verdict, result.passed, result.reasons) == ("fail", False, "loss: 0.7 is too much")
    assert result.link == f"https://airflow/ml-metrics/run?run={RUN.key}"
    assert (result.began_at, result.ended_at) == ((EPOCH + 100) * 1000, (EPOCH + 200) * 1000)
    assert result.metrics == {"goodput": pytest.approx(80 / 185 * 100), "cost_usd": 12.5, "duration": 70}
    assert result.verdicts == {"loss": "fail: 0.7 is too much", "mfu": "pass: "}
    assert result.facts["image_digest"] == f"sha256:{'a' * 64}"
    unknown = result_of(TEST, RUN, decided_run(tmp_path, workload=Workload(JobStatus.MISSED)), "")
    assert (unknown.began_at, unknown.ended_at) == (0, 0), "a run whose times are unknown took no time"


MLFLOW = """
from contextlib import nullcontext
from types import SimpleNamespace

def start_run():
    return nullcontext(SimpleNamespace(info=SimpleNamespace(run_id="0123456789abcdef0123456789abcdef")))

def log_metric(name, value, step):
    pass
"""
"""What the example of the page uses of the client."""


def test_the_example_of_the_page_names_its_run_to_the_server(tmp_path: Path, tracked: MlflowService) -> None:
    (program,) = re.findall(r"^```python\n(import json.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "mlflow.py").write_text(MLFLOW)
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "ML_METRICS_RUN_DIR": str(run_folder)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=300)
    found = collected(run_folder)
    assert found.metadata == {"mlflow_run_id": "0123456789abcdef0123456789abcdef"}
    state = decided_run(run_folder)
    state.folder.write("metrics", found.document())
    result = result_of(TEST, RUN, state, "")
    assert result.tracked == {"mlflow": "0123456789abcdef0123456789abcdef"}
    tracked.add_run("0123456789abcdef0123456789abcdef", result.began_at)
    message = Message("key", MessageKind.RESULT, "the result", result.text(), "", ())
    assert Mlflow(tracked.service.url).send(message, 5) == "logged to run 0123456789abcdef0123456789abcdef"


def test_every_run_has_one_result_and_only_tracking_servers_get_it(tracked: MlflowService) -> None:
    for number, day in enumerate((good(), BAD), start=1):
        simulate(number, day)
        notify_about(number, day)
        notify_about(number, day)  # a gate that is tried again
    results = rows(MessageKind.RESULT)
    assert len({one.run_key for one in results}) == len(results) == 2
    assert {(one.test, one.owner) for one in results} == {("", "")}, "no alert waits for it, and it counts in no limit"
    assert len([one for one in rows() if one.occasion == "broken"]) == 1
    assert tracked.runs == {}, "the task of a run never waits for a tracking server"
    send()
    assert len(tracked.runs) == 2
    assert {run["tags"]["ml_metrics.verdict"] for run in tracked.runs.values()} >= {"fail"}
    assert {one.state for one in rows(MessageKind.RESULT)} == {"sent"}
    assert len(mails()) == 1, "the outbox has the alert, and no result"


def test_a_result_hides_no_warning(tracked: MlflowService) -> None:
    """Its tasks were cleared, and it was judged again."""
    for day in (good(), WARNED, WARNED):
        simulate(1, day)
        notify_about(1, day)
    (row,) = rows("warning")
    assert (row.state, row.reasons) == ("held", ("memory_final 8.982, must be below 4",))
    assert tracked.runs == {}


def test_a_server_that_is_away_keeps_no_alert_back_and_gets_the_result_later(tracked: MlflowService) -> None:
    tracked.service.answer = lambda _: Answer(503)
    simulate(1, BAD)
    notify_about(1, BAD)
    assert send() == 0
    (result,) = rows(MessageKind.RESULT)
    assert (result.state, result.channels["mlflow"].attempts) == ("pending", 1)
    assert "MLflow answered 503" in result.channels["mlflow"].detail
    simulate(2, good())
    notify_about(2, good())
    assert [one.state for one in rows() if one.occasion == "recovered"] == ["sent"], "the callback sent it at once"
    tracked.service.answer = tracked.answer
    send()
    assert {one.state for one in rows(MessageKind.RESULT)} == {"sent"}
    assert len(tracked.runs) == 2


def test_the_key_of_the_server_is_in_no_row_and_no_log(
    tracked: MlflowService, caplog: pytest.LogCaptureFixture
) -> None:
    def repeats_the_header(request: Request) -> Answer:
        return Answer(500, {"message": request.headers["Authorization"]})

    tracked.service.answer = repeats_the_header
    simulate(1, BAD)
    notify_about(1, BAD)
    send()
    (result,) = rows(MessageKind.RESULT)
    assert "the-token-of-mlflow" not in caplog.text + result.channels["mlflow"].detail
    assert "***" in result.channels["mlflow"].detail
