"""Values out of bounds that are confirmed by another run: when people are notified, and when not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_home import Home
from standalone_airflow import Standalone, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.campaign]

WORK = """
import os, pathlib
from tensorboard.summary import Writer
counter = pathlib.Path(os.environ["COUNTER"])
number = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(number))
if number == 1:
    counter.chmod(0o666)  # each run is another user
log = Writer(os.environ["MODEL_DIR"])
log.add_scalar("loss", 5.0 if str(number) in os.environ["BAD"] else 0.1, 1)
log.close()
"""
FLAKY, REGRESSED, PAUSED = "flaky", "regressed", "paused"
RUN = "by_hand"
RERUN = f"confirm__{RUN}__1"
CONF = {"image": "local/other:2", "trial": "no"}


def add_tests(home: Home) -> None:
    condition = {"comparison": "less", "success_threshold": {"fixed_value": 1}, "confirm": 2}
    for name, bad in ((FLAKY, "1"), (REGRESSED, "123456789"), (PAUSED, "1")):
        home.add_test(
            name,
            command=["python3", "-c", WORK],
            by_hand=["image"],
            env={"COUNTER": str(home.shared / f"{name}.count"), "BAD": bad},
            regression_test_config={"metric_success_conditions": {"loss_final": condition}},
        )


def wait_for_both(airflow: Standalone, dag: str) -> list[str]:
    """Wait until a run and the run that confirms it have ended, and return their states."""
    first = airflow.wait_until_ended(dag, RUN)
    wait_until(lambda: RERUN in airflow.runs(dag), f"{dag} runs again")
    return [first, airflow.wait_until_ended(dag, RERUN)]


def test_no_run_waits_for_a_paused_dag(airflow: Standalone, home: Home) -> None:
    airflow.wait_until_parsed(PAUSED)
    done = home.run(PAUSED)
    assert done.returncode == 1
    assert "the DAG is paused, so no run is started" in done.stdout
    assert "not yet confirmed: 1 of 2 runs" in done.stdout
    listed = home.airflow("dags", "list-runs", PAUSED, "--output", "plain").stdout
    assert "confirm__" not in listed
    assert home.run(PAUSED).returncode == 0  # the next run does not confirm it
    assert home.mails(PAUSED) == []


def test_a_run_that_fails_once_and_a_regression(airflow: Standalone, home: Home) -> None:
    for name in (FLAKY, REGRESSED):
        airflow.unpause(name)
        airflow.trigger(name, CONF, RUN)
    with ThreadPoolExecutor(2) as executor:
        flaky, regressed = executor.map(lambda name: wait_for_both(airflow, name), (FLAKY, REGRESSED))
    assert flaky == ["failed", "success"]
    assert regressed == ["failed", "failed"]
    wait_until(lambda: bool(home.mails(REGRESSED)), "the mail about the regression is sent")
    (mail,) = home.mails(REGRESSED)
    text = mail.read_text().replace("=\n", "")
    assert "confirmed by 2 runs" in text
    assert RERUN in text
    assert home.mails(FLAKY) == []
    assert airflow.run(REGRESSED, RERUN)["conf"] == CONF
    assert airflow.run(REGRESSED, RERUN)["note"] == f"Confirms {RUN}: loss_final (1 of 2 runs)"
    with home.warehouse() as warehouse:
        newest = warehouse.metrics.values(FLAKY, "loss_final", 10)
    assert [row.outcome for row in newest] == ["pass", "fail"]

    airflow.clear(FLAKY, RUN, "confirm_run")
    airflow.wait_until_ended(FLAKY, RUN)
    airflow.clear(REGRESSED, RERUN, "judge_run")
    airflow.wait_until_ended(REGRESSED, RERUN)
    assert airflow.tasks(FLAKY, RUN)["confirm_run"]["state"] == "skipped"
    assert set(airflow.runs(FLAKY)) == {RUN, RERUN}
    assert set(airflow.runs(REGRESSED)) == {RUN, RERUN}
    assert home.mails(FLAKY) == []
    assert home.mails(REGRESSED) == [mail]
