"""`ml-metrics doctor` on installations with one thing wrong each."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk.exceptions import AirflowFailException

from ml_metrics import ConfigError
from ml_metrics.airflow import Check, diagnose
from ml_metrics.airflow.callbacks import diagnose_here
from ml_metrics.airflow.doctor import NEWEST, checked
from ml_metrics.airflow.operators.run import RUN_KEY
from ml_metrics.airflow.versions import NAMES, release_of
from ml_metrics.ui.cli import main
from servers.access_reviews import AccessReviews
from unit.ui.cli.test_clusters import connection_to

PROJECT = Path(__file__).parents[4]
HEALTHY = {name: {"status": "healthy"} for name in ("metadatabase", "scheduler", "dag_processor", "triggerer")}


class Airflow(BaseHTTPRequestHandler):
    """The health of an API server."""

    health: Any = HEALTHY

    def do_GET(self) -> None:
        assert self.path == "/api/v2/monitor/health"
        body = json.dumps(self.health).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Airflow]]:
    class Own(Airflow):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"http://127.0.0.1:{server.server_port}")
    (tmp_path / "tests").mkdir()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path / "tests"))
    yield Own
    server.shutdown()
    server.server_close()


@pytest.fixture
def found() -> Callable[[], dict[str, Check]]:
    return lambda: {check.name: check for check in diagnose(5)}


def test_a_laptop_is_fine_before_its_first_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in checks] == [
        "settings", "versions", "executor", "processes", "test files", "documents", "run folders", "warehouse",
        "cluster", "channel outbox", "senders", "private names",
    ]  # fmt: skip
    assert all(check["ok"] for check in checks), checks
    assert not list(tmp_path.rglob("warehouse.db")), "it creates nothing"
    assert not list(tmp_path.rglob("runs"))
    assert main(["doctor"]) == 0
    assert "12 checks, none wrong." in capsys.readouterr().out


def test_newer_versions_are_allowed_and_told(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not tested" not in found()["versions"].message
    for name in NEWEST:
        monkeypatch.setitem(NEWEST, name, (*NEWEST[name][:-1], -1))
    read = found()["versions"]
    assert read.ok
    assert re.search(r"; not tested with Python 3\.\d+.*, Airflow 3\.\d+.*, standard", read.message)


def test_the_newest_tested_versions_are_those_of_the_matrix() -> None:
    corners = tomllib.loads((PROJECT / "tests" / "matrix" / "corners.toml").read_text())["corners"]
    for name, key in (("Airflow", "airflow"), ("Python", "python")):
        assert NEWEST[name] == max(release_of(corner[key]) for corner in corners)
    lock = (PROJECT / "requirements" / "requirements.lock").read_text()
    for name in ("cncf-kubernetes", "standard"):
        (locked,) = re.findall(rf"^apache-airflow-providers-{name}==(\S+)", lock, re.MULTILINE)
        assert NEWEST[name] == release_of(locked)


def test_a_private_name_that_is_gone_is_told_with_its_use(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, "redact", ("no password is shown", "airflow.sdk.no_such_module"))
    monkeypatch.delattr(KubernetesHook, "_get_field")
    read = found()["private names"]
    assert not read.ok
    assert "airflow.sdk.no_such_module.redact (no password is shown)" in read.message
    assert "KubernetesHook._get_field (a kubeconfig that was checked is not read again)" in read.message


def test_another_project_of_this_name_is_told(found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "ml_metrics-0.1.4.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: ml-metrics\nVersion: 0.1.4\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "`pip uninstall ml-metrics`" in found()["versions"].message


def test_a_wrong_check_has_the_exit_code_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROT", "gs://bucket/runs")
    assert main(["doctor"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "WRONG settings [ml_metrics] storage_rot: there is no such setting; did you mean 'storage_root'?" in text
    assert "1 wrong." in text


@pytest.mark.parametrize(
    ("setting", "check", "message"),
    [
        ("MAX_POINTS=many", "settings", "max_points"),
        ("MASS_FAILURE_TESTS=-1", "settings", "mass_failure_tests: '-1' is not a whole number"),
        ("SHARED_DISK=perhaps", "settings", "neither yes nor no"),
        ("CLUSTERS=/nowhere/clusters.yaml", "settings", "cannot be read"),
        ("PRICE_BOOK=/nowhere/prices.yaml", "settings", "cannot be read"),
        ("POLICY=/nowhere/policy.yaml", "settings", "cannot be read"),
        ("KEEP_RUNS_DAYS=-3", "settings", "keep_runs_days"),
        ("CLUSTER_PATIENCE=long", "settings", "cluster_patience"),
        ("CONFIG_ROOT=/nowhere/tests", "test files", "config_root: there is no folder /nowhere/tests"),
        ("DOCUMENTS_KEY=short", "documents", "fewer than 16 letters"),
        ("STORAGE_ROOT=/etc/passwd/runs", "run folders", "cannot be created"),
        ("CHANNELS=outbox, pigeon", "channel pigeon", "is not one of outbox"),
        ("CHANNELS=smtp:nobody_made_this", "channel smtp:nobody_made_this", "no Airflow connection"),
        ("CLUSTER=kubernetes", "cluster", ""),
        ("WAREHOUSE_FILE=/proc/cpuinfo", "warehouse", ""),
    ],
)
def test_what_is_wrong_is_named(
    setting: str, check: str, message: str, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(f"AIRFLOW__ML_METRICS__{name}", value)
    result = found()[check]
    assert not result.ok, result
    assert message in result.message
    assert "\n" not in result.message


def test_defaults_that_airflow_writes_into_its_file_are_not_counted(
    found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "airflow").mkdir(exist_ok=True)
    (tmp_path / "airflow" / "airflow.cfg").write_text(
        "[ml_metrics]\nchannels = outbox\nclusters =\ndeployment = prod\n"
    )
    monkeypatch.delenv("AIRFLOW__ML_METRICS__CONFIG_ROOT")
    assert found()["settings"].message.startswith("1 of ")


def test_several_machines_without_a_bucket(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    result = found()
    wrong = [name for name, check in result.items() if not check.ok]
    assert {"run folders", "warehouse", "channel outbox"} <= set(wrong)
    assert result["executor"].message.startswith(
        "CeleryExecutor: tasks run on several machines; each worker runs at most 16"
    )


@pytest.mark.parametrize(
    ("health", "message"),
    [
        ({**HEALTHY, "triggerer": {"status": None}}, "not healthy: triggerer: deferrable tests wait forever"),
        ({**HEALTHY, "scheduler": {"status": "unhealthy"}}, "not healthy: scheduler: no run starts"),
        (["what"], "does not answer as Airflow's API server"),
        ({}, "not healthy: scheduler"),
    ],
)
def test_a_process_of_airflow_that_is_away(airflow: type[Airflow], health: Any, message: str, found: Any) -> None:
    airflow.health = health
    assert message in found()["processes"].message
    assert not found()["processes"].ok


def test_tasks_may_have_another_address_than_people(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address = os.environ["AIRFLOW__API__BASE_URL"]
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:1")
    assert "127.0.0.1:1 does not answer" in found()["processes"].message
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", f"{address}/execution/")
    assert found()["processes"].message.startswith(f"{address}: scheduler")


def test_a_namespace_of_airflow_is_no_place_for_workloads(
    found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = AccessReviews()
    try:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection_to(server.url))
        unknown = found()["cluster"]
        assert unknown.ok
        assert "in namespace default; Airflow's own namespace is not known here" in unknown.message
        monkeypatch.setenv("AIRFLOW__ML_METRICS__AIRFLOW_NAMESPACE", "default")
        beside = found()["cluster"]
        assert not beside.ok
        assert beside.message.startswith("workloads would start in 'default', Airflow's own namespace")
        assert "`[ml_metrics] namespace`" in beside.message
        (tmp_path / "policy").write_text('{"namespaces": ["default"]}')
        monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "policy"))
        assert found()["cluster"].ok, "an administrator allowed it"
        monkeypatch.delenv("AIRFLOW__ML_METRICS__POLICY")
        monkeypatch.setenv("AIRFLOW__ML_METRICS__NAMESPACE", "workloads")
        assert found()["cluster"].message.partition(";")[0].endswith("in namespace workloads")
    finally:
        server.stop()


def job(name: str, owner: str | None = None, **labels: str) -> dict[str, Any]:
    owners = [{"kind": owner, "name": f"{name}-owner"}] if owner else None
    return {"metadata": {"name": name, "ownerReferences": owners, "labels": labels}}


def test_what_was_applied_beside_airflow_is_told(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    test, key = {"ml-metrics/test": "t"}, {RUN_KEY: "k"}
    server = AccessReviews(jobs=[job("a-1", "CronJob", **test), job("a-2", "CronJob", **test), job("b", **test)])
    server.jobs += [job("of-airflow", **test, **key), job("of-others"), job("several", "JobSet", **test)]
    publisher = {"env": [{"name": "METRIC_CONFIG", "value": "{}"}]}  # of the older system, without our label
    server.jobs += [{**job("c"), "spec": {"template": {"spec": {"initContainers": [publisher]}}}}]
    try:
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "kubernetes")
        monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection_to(server.url))
        read = found()["cluster"]
        assert not read.ok
        assert "of CronJob a-1-owner, CronJob a-2-owner, Job b, Job c, which Airflow has not started" in read.message
        server.denied = {"list jobs"}
        assert "nothing collects" not in found()["cluster"].message
    finally:
        server.stop()


def beating(second: int, **other: str | None) -> dict[str, Any]:
    """Return the health of processes that all gave a sign of life at a second."""
    at = dict.fromkeys(("scheduler", "dag_processor", "triggerer"), f"2026-11-27T10:00:{second:02}+00:00") | other
    return {
        "metadatabase": {"status": "healthy"},
        **{name: {"status": "healthy", f"latest_{name}_heartbeat": when} for name, when in at.items()},
    }


@pytest.mark.parametrize(
    ("before", "answer", "after", "is_own"),
    [
        (beating(1), beating(1), beating(1), True),
        (beating(1), beating(2), beating(2), True),
        (beating(1), beating(1), beating(2), True),
        (beating(1, scheduler=None), beating(2), beating(3), True),
        (beating(1, triggerer=None), beating(1, triggerer=None), beating(1, triggerer=None), True),
        (beating(1), beating(2), beating(1), False),
        (beating(3), beating(2), beating(3), False),
        (beating(1), beating(1, triggerer=None), beating(1), False),
        (beating(1, triggerer=None), beating(1), beating(1, triggerer=None), False),
        (beating(1, scheduler=None, dag_processor=None, triggerer=None), beating(1), beating(1, scheduler=None), False),
    ],
)
def test_another_airflow_on_the_same_port_is_not_healthy(
    before: Any, answer: Any, after: Any, is_own: bool, airflow: type[Airflow], found: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The database of this home is looked into before and after the other one is asked."""
    database = tmp_path / "airflow.db"
    database.touch()
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{database}")
    looks = iter([before, after])
    monkeypatch.setattr("ml_metrics.airflow.versions.get_airflow_health", lambda: next(looks), raising=False)
    airflow.health = answer
    result = found()["processes"]
    assert result.ok is is_own, result
    assert ("is another Airflow than that of" in result.message) is not is_own
    assert "cannot be told" not in result.message


def test_what_cannot_be_told_is_said(airflow: type[Airflow], found: Any) -> None:
    """There is no database, or as in a task none that may be read."""
    airflow.health = beating(1)
    assert found()["processes"].ok
    assert found()["processes"].message.endswith("whether this is the Airflow of this home cannot be told from here")


def test_composer_watches_its_own_processes(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("COMPOSER_ENVIRONMENT", "nightly")
    assert found()["processes"].ok


def test_the_task_of_the_dag_fails_with_the_names_of_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert diagnose_here() == "12 checks, none wrong"
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROT", "gs://bucket/runs")
    with pytest.raises(AirflowFailException, match="1 of 12 checks are wrong: settings"):
        diagnose_here()
    assert "did you mean 'storage_root'?" in caplog.text


def test_a_check_that_hangs_is_an_answer_in_time() -> None:
    began = time.monotonic()
    check = checked("bucket", lambda: str(time.sleep(30)), 0.2)
    assert (check.ok, check.message) == (False, "no answer within 0.2 seconds: is it reachable from here?")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_an_error_of_any_family_is_one_line_without_secrets(kind: type[BaseException]) -> None:
    from airflow.sdk.log import mask_secret

    mask_secret("hunter2-hunter2")

    def fail() -> str:
        raise kind("password hunter2-hunter2\nrefused")

    check = checked("bucket", fail, 5)
    assert not check.ok
    assert check.message == f"{kind.__name__}: password *** refused"


def test_an_error_of_ours_says_what_to_do() -> None:
    def fail() -> str:
        raise ConfigError("set it")

    assert checked("a", fail, 5) == Check("a", ok=False, message="set it")


def test_an_outbox_that_exists_is_written_to_and_left_empty(
    found: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", str(outbox))
    assert found()["channel outbox"].message == f"{outbox}: files can be written"
    assert list(outbox.iterdir()) == []
    monkeypatch.setenv("AIRFLOW__ML_METRICS__OUTBOX", "/proc/self/fd")
    assert not found()["channel outbox"].ok
