"""Messages under a real Airflow that no run can send: the triggerer reports a run that never starts, a sender a gate
whose every try is killed, and the project's own DAGs what does not run at all.

It needs an Airflow of its own for minutes, so `make test` leaves it to `make campaign NAME=alerts`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from airflow_home import PROJECT, Home
from campaigns.pace import SOON
from standalone_airflow import KILLS, Standalone, kill_next, standalone, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not os.environ.get("CAMPAIGN"), reason="NOT RUN: minutes of Airflow; `make campaign NAME=alerts`"
    ),
]

DAG = '''
"""A DAG of Airflow's own kind that waits for ever, with the deadline of a test, which is shorter here."""
from datetime import timedelta
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from ml_metrics.airflow import dags
from ml_metrics.config.definition import TestDefinition

dags.DEADLINE_SLACK = timedelta(seconds=5)
dags.longest_run = lambda test: timedelta(0)
TEST = TestDefinition(name="hangs", owner="a-new-user", emails=("a@example.com",), image="i", command=("c",))
with DAG("hangs", schedule=None, deadline=dags.deadline_of(TEST)):
    BashOperator(task_id="wait", bash_command="true", pool="empty")
'''


POLICY = '''
"""Tries follow each other at once, a gate has two, and each of one gate is killed before it begins."""
import os
import signal
from datetime import timedelta
def task_policy(task):
    task.retry_delay = timedelta(0)
    if task.task_id == "assert_success":
        task.retries = 1
    if (task.dag_id, task.task_id) == ("gate-never-begins", "assert_success"):
        task.pre_execute = lambda context: os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture(scope="module")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dags")


@pytest.fixture(scope="module")
def airflow(dags_folder: Path, home: Home) -> Iterator[Standalone]:
    (dags_folder / "hangs.py").write_text(DAG)
    for own in ("ml_tests.py", "ml_messages.py", "ml_digest.py"):
        shutil.copy(PROJECT / "dags" / own, dags_folder)
    for name in ("gate-always-killed", "gate-never-begins"):
        home.add_test(name, command=["false"], emails=["a@example.com"])
    home.airflow("pools", "set", "empty", "0", "has no slots").check_returncode()
    home.write_policy(KILLS + POLICY)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SOON.items():
            patched.setenv(name, value)
        patched.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags_folder))
        with standalone(home) as running:
            yield running


def test_a_run_that_never_starts_is_reported_once(airflow: Standalone, home: Home) -> None:
    airflow.unpause("hangs")
    airflow.trigger("hangs")
    wait_until(lambda: len(home.mails("hangs")) == 1, "the triggerer has sent the mail")
    (mail,) = home.mails("hangs")
    text = mail.read_text().replace("=\n", "")
    assert "Subject: [ML Metrics] hangs is overdue: the run has not finished" in text
    assert "Its folder does not show that the workload has started" in " ".join(text.split())
    assert "To: a@example.com" in text
    with home.warehouse() as warehouse:
        alert = warehouse.incidents.find_open("hangs")
    assert alert is not None
    assert alert.reasons == ("overdue:",)
    assert "-001-overdue-" in Path(mail).name


def test_a_sender_reports_gates_whose_every_try_is_killed(airflow: Standalone, home: Home) -> None:
    tests = ("gate-always-killed", "gate-never-begins")
    runs = {}
    for test in tests:
        airflow.unpause(test)
        runs[test] = airflow.trigger(test)
    kill_next(home, "gate-always-killed", runs["gate-always-killed"], "assert_success", times=2)
    assert {airflow.wait_until_ended(test, run) for test, run in runs.items()} == {"failed"}
    assert home.mails("gate-never-begins") == [], "Airflow calls no callback of such a gate"

    def all_are_reported() -> bool:
        run_own(airflow, "ml_messages")
        return all(home.mails(test) for test in tests)

    wait_until(all_are_reported, "a sender has reported both runs")
    run_own(airflow, "ml_messages")
    for test in tests:
        (mail,) = home.mails(test)
        assert "ExitCode:1" in mail.read_text()


OWN_DAGS = (
    "ml_messages", "ml-metrics-watch", "ml-metrics-digest", "ml-metrics-heartbeat", "ml-metrics-storage",
    "ml-metrics-doctor",
)  # fmt: skip


def run_own(airflow: Standalone, *dags: str) -> None:
    """Run some of the project's DAGs now, at the same time; their schedules may be running them as well."""
    runs = {dag: airflow.trigger(dag) for dag in dags}
    assert {dag: airflow.wait_until_ended(dag, run) for dag, run in runs.items()} == dict.fromkeys(dags, "success")


def test_the_projects_own_dags_are_never_paused_and_run(airflow: Standalone, home: Home) -> None:
    for dag in OWN_DAGS:
        airflow.wait_until_parsed(dag)
        assert airflow.client.get(f"/api/v2/dags/{dag}").json()["is_paused"] is False, dag
    wait_until(airflow.is_healthy, "no process is late, which the doctor would report")
    run_own(airflow, *OWN_DAGS)
    with home.warehouse() as warehouse:
        newest = warehouse.senders.newest()
    assert newest is not None
    assert newest.sender == "ml_messages"


def test_what_breaks_a_scheduled_test_is_reported_and_so_is_its_mending(airflow: Standalone, home: Home) -> None:
    home.add_test("breaks", command=["true"], schedule="0 0 1 1 *", emails=["a@example.com"])
    file = home.configs / "breaks.yaml"
    good = file.read_text()
    airflow.unpause("breaks")

    def watched() -> str:
        """Let the DAG look, and return the subject of the newest mail about the test."""
        before = len(home.mails("breaks"))
        run_own(airflow, "ml-metrics-watch")
        wait_until(lambda: len(home.mails("breaks")) > before, "the mail is sent")
        newest = max(home.mails("breaks"), key=lambda path: path.stat().st_mtime_ns)
        return str(message_from_bytes(newest.read_bytes(), policy=policy.default)["Subject"])

    run_own(airflow, "ml-metrics-watch")
    run_own(airflow, "ml-metrics-watch")
    assert home.mails("breaks") == [], "a test in order"
    subjects = []
    for change in (
        lambda: file.write_text(good.replace('"command"', '"comand"')),
        lambda: file.write_text(good),
        lambda: airflow.client.patch("/api/v2/dags/breaks", json={"is_paused": True}).raise_for_status(),
        lambda: airflow.unpause("breaks"),
        file.unlink,
    ):
        change()
        subjects.append(watched())
    print("\n".join(subjects))
    assert "unreadable" in subjects[0] or "cannot be read" in subjects[0]
    assert "paused" in subjects[2]


def test_an_import_error_is_reported(airflow: Standalone, dags_folder: Path, home: Home) -> None:
    run_own(airflow, "ml-metrics-watch")  # the first pass only records
    broken = "from ml_metrics import accelerator_test  # an Airflow DAG\nraise ValueError('no such accelerator')\n"
    (dags_folder / "by_hand.py").write_text(broken)
    wait_until(lambda: "by_hand" in str(airflow.client.get("/api/v2/importErrors").json()), "Airflow has noticed it")

    def is_reported() -> bool:
        run_own(airflow, "ml-metrics-watch")
        return any("no such accelerator" in path.read_text() for path in home.outbox.glob("*.eml"))

    wait_until(is_reported, "the import error is reported")
