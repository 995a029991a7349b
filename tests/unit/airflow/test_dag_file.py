"""One line of a DAG file makes every test's DAG and the product's own, as the repository's files do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from ml_metrics import ConfigError, load_tests
from ml_metrics.airflow.product_dags import PRODUCT_DAGS, product_dag

PROJECT = Path(__file__).parents[3]
ONE_LINE = '"""Airflow DAGs."""\nfrom ml_metrics import load_tests\n\nload_tests(globals())\n'
OF_THE_PLACE = ("fileloc", "relative_fileloc", "_processor_dags_folder")
EXAMPLE = "tf-mnist-example-cpu"
EXAMPLES = {EXAMPLE, "resumable-cpu", "serving-cpu"}


def stored(folder: Path) -> dict[str, Any]:
    """Return what Airflow stores of each DAG in a folder, but for the place of its file."""
    bag = DagBag(str(folder))
    assert bag.import_errors == {}
    found = {dag_id: DagSerialization.to_dict(dag) for dag_id, dag in bag.dags.items()}
    for one in found.values():
        for name in OF_THE_PLACE:
            one["dag"].pop(name, None)
    return json.loads(json.dumps(found, sort_keys=True))  # type: ignore[no-any-return]


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DAGs folder with one file."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "tests.py").write_text(ONE_LINE)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(PROJECT / "include" / "metric_configs"))
    return folder


def test_airflow_stores_the_same_dags_as_of_the_files_of_the_repository(
    dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored(dags)
    assert set(made) == {*EXAMPLES, *PRODUCT_DAGS}
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(PROJECT / "dags"))
    repository = stored(PROJECT / "dags")
    assert repository.pop("py-mnist-example-cpu")
    assert made == repository


def test_the_tasks_of_the_products_own_dags_keep_their_names() -> None:
    """Airflow would show a renamed task as another one, without its past."""
    assert {dag_id: product_dag(dag_id).task_ids for dag_id in PRODUCT_DAGS} == {
        "ml_messages": ["send_messages"],
        "ml-metrics-digest": ["send_digest"],
        "ml-metrics-watch": ["watch_tests"],
        "ml-metrics-heartbeat": ["send_heartbeat"],
        "ml-metrics-storage": ["prune_storage", "prune_rows"],
        "ml-metrics-decide": ["decide"],
        "ml-metrics-doctor": ["doctor"],
        "ml-metrics-compare": ["run_trials", "give_answer"],
        "ml-metrics-bisect": ["run_trials", "give_answer"],
    }


@pytest.mark.parametrize("dag_id", [EXAMPLE, "ml-metrics-watch", "ml_messages"])
def test_the_process_of_a_task_builds_its_dag_alone(dag_id: str, dags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "load_history")
    namespace: dict[str, Any] = {"__file__": str(dags / "tests.py")}
    load_tests(namespace)
    assert list(namespace) == ["__file__", dag_id]


def test_the_task_of_a_test_imports_nothing_of_the_products_dags(dags: Path) -> None:
    context = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": EXAMPLE, "_AIRFLOW_PARSING_CONTEXT_TASK_ID": "load_history"}
    code = f"import sys\n{(dags / 'tests.py').read_text()}print(*sys.modules)"
    environment = {**os.environ, **context, "PYTHONWARNINGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert {"ml_metrics.airflow.dags", "ml_metrics.airflow.product_dags", "kubernetes"} & set(done.stdout.split()) == {
        "ml_metrics.airflow.dags"
    }


@pytest.mark.parametrize(
    ("own_dags", "expected"),
    [(True, set(PRODUCT_DAGS)), (False, set()), (("ml_messages",), {"ml_messages"}), ("ml_messages", {"ml_messages"})],
)
@pytest.mark.usefixtures("dags")
def test_the_products_own_dags_can_be_left_out(own_dags: Any, expected: set[str]) -> None:
    namespace: dict[str, Any] = {}
    load_tests(namespace, own_dags=own_dags)
    assert set(namespace) == {*EXAMPLES, *expected}


@pytest.mark.usefixtures("dags")
def test_an_unknown_dag_of_the_product_is_an_error_that_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="own_dags: 'ml-metrics-dijest' is not one of ml_messages, ml-metrics-digest"):
        load_tests({}, own_dags=["ml-metrics-dijest"])


@pytest.mark.parametrize(
    "copied", ['product_dag("ml-metrics-digest")', 'DAG("ml-metrics-digest", schedule="@hourly")'], ids=["new", "old"]
)
def test_a_dag_of_the_product_that_another_file_defines_is_left_to_that_file(dags: Path, copied: str) -> None:
    """A fork has the repository's files in its DAGs folder, and adds the one line: no DAG has two files."""
    (dags / "ml_digest.py").write_text(
        '"""An Airflow DAG."""\nfrom airflow.sdk import DAG\n'
        f"from ml_metrics.airflow.product_dags import product_dag\n\ndigest = {copied}\n"
    )
    namespace: dict[str, Any] = {"__file__": str(dags / "tests.py")}
    load_tests(namespace)
    assert PRODUCT_DAGS.keys() - namespace.keys() == {"ml-metrics-digest"}
    assert {dag_id: Path(dag.fileloc).name for dag_id, dag in DagBag(str(dags)).dags.items()} == {
        **dict.fromkeys(EXAMPLES, "tests.py"),
        **dict.fromkeys(PRODUCT_DAGS, "tests.py"),
        "ml-metrics-digest": "ml_digest.py",
    }


def test_the_folder_of_tests_can_be_named(dags: Path, tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "hello.yaml").write_text(json.dumps({"name": "hello", "image": "i", "command": ["c"]}))
    namespace: dict[str, Any] = {"__file__": str(dags / "tests.py")}
    load_tests(namespace, str(tmp_path / "team"), own_dags=False)
    assert list(namespace) == ["__file__", "hello"]
