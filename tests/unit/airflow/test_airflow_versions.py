"""What differs between versions of Airflow is in one module, and nothing outside it differs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import airflow
import pytest

from ml_metrics.airflow import versions
from ml_metrics.airflow.versions import PLACES
from syntax import syntax_of

PROJECT = Path(__file__).parents[3]
OWN = PROJECT / "plugins" / "ml_metrics" / "airflow" / "versions.py"
FILES = [
    path
    for folder in ("dags", "deploy", "include", "packages/local-kube/src", "plugins")
    for path in sorted((PROJECT / folder).rglob("*.py"))
    if path != OWN
]
EVERYWHERE = {
    "airflow.api_fastapi.logging": {"decorators"},
    "airflow.__main__": {"main"},
    "airflow.cli.commands": {"standalone_command"},
    "airflow.configuration": {"conf"},
    "airflow.listeners": {"hookimpl"},
    "airflow.plugins_manager": {"AirflowPlugin"},
    "airflow.providers.cncf.kubernetes.hooks.kubernetes": {"KubernetesHook"},
    "airflow.providers.cncf.kubernetes.operators.job": {"KubernetesJobOperator"},
    "airflow.providers.cncf.kubernetes.operators.pod": {"KubernetesPodOperator", ""},
    "airflow.providers.cncf.kubernetes.triggers.pod": {"KubernetesPodTrigger"},
    "airflow.triggers.base": {"BaseTrigger", "TriggerEvent"},
    "airflow.providers.google.cloud.hooks.bigquery": {"BigQueryHook"},
    "airflow.providers.google.cloud.links.kubernetes_engine": {"KubernetesEngineJobLink", "KubernetesEnginePodLink"},
    "airflow.providers.google.cloud.operators.kubernetes_engine": {"GKEStartPodOperator"},
    "airflow.providers.google.common.hooks.base_google": {"GoogleBaseHook"},
    "airflow.providers.standard.operators.hitl": {"HITLOperator"},
    "airflow.providers.standard.triggers.hitl": {"HITLTrigger"},
    "airflow.providers.standard.triggers.external_task": {"DagStateTrigger"},
    "airflow.providers.standard.triggers.temporal": {"DateTimeTrigger", "TimeDeltaTrigger"},
    "airflow.sdk": {
        *("Asset", "AssetAlias", "BaseHook", "BaseOperator", "Connection", "Context", "DAG", "Param", "Variable"),
        *("chain", "get_current_context", "get_parsing_context", "task"),
    },
    "airflow.sdk.exceptions": {"AirflowException"},
    "airflow.sdk.types": {"RuntimeTaskInstanceProtocol"},
}
"""What all supported versions have, each in this module. Before a name is added here, `make matrix` has imported it in
the oldest version; a name that is elsewhere there, or that Airflow does not promise, belongs into versions.py."""


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what a file imports from Airflow, wherever in the file: module and name."""
    text = path.read_text()
    for node in ast.walk(syntax_of(text if "airflow" in text else "")):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "airflow":
            yield from ((str(node.module), one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names if one.name.startswith("airflow."))


def test_every_other_file_imports_only_what_all_supported_versions_have() -> None:
    for path in FILES:
        for module, name in imported(path):
            assert name in EVERYWHERE.get(module, ()), (
                f"{path.relative_to(PROJECT)}: is {name} in {module} of every supported Airflow? "
                "If not, import it from ml_metrics.airflow.versions"
            )


def test_no_code_in_a_string_names_a_module_that_moved() -> None:
    """Some code runs in a process of its own, and is a string here."""
    places = {place for several in PLACES.values() for place in several} - set(EVERYWHERE)
    for path in FILES:
        text = path.read_text()
        assert [place for place in places if f"from {place} import" in text] == [], path


@pytest.mark.parametrize("name", PLACES)
def test_a_name_is_found_at_its_newest_place_and_kept(name: str) -> None:
    found = getattr(versions, name)
    assert found.__module__.startswith("airflow.") if name != "conf" else found.get("core", "dags_folder")
    assert vars(versions)[name] is found


def test_the_lists_of_names_agree() -> None:
    typed = {name for module, name in imported(OWN)} - {"__version__", "KubernetesPodOperator"}
    typed -= {"HITLOperator", "HITLTrigger", "TaskAwaitingInput"}
    assert typed == set(PLACES), "type checkers know each name"


def test_an_older_place_is_used_where_the_newest_has_not_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, places = versions.TaskDeferred, PLACES["TaskDeferred"]
    for absent in ("airflow.no_such_module", "airflow.sdk"):
        monkeypatch.setitem(PLACES, "TaskDeferred", (absent, *places))
        monkeypatch.delitem(vars(versions), "TaskDeferred", raising=False)
        assert versions.TaskDeferred is usual


def test_a_name_that_no_place_has_is_an_error_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "TaskDeferred", ("airflow.sdk",))
    monkeypatch.delitem(vars(versions), "TaskDeferred", raising=False)
    with pytest.raises(ImportError, match=rf"Airflow {airflow.__version__} has no TaskDeferred in airflow\.sdk: is"):
        _ = versions.TaskDeferred
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        _ = versions.Unknown  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.1.7", timedelta(hours=1)), ("3.2.2", timedelta(hours=1)), ("3.3.0rc1", 3600), ("3.10.0", 3600)],
)
def test_a_deadline_has_the_form_that_the_version_stores(
    version: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "__version__", version)
    assert versions.deadline_interval(timedelta(hours=1)) == expected


def test_a_run_is_triggered_without_the_note_that_an_older_version_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    class OlderTriggerError(Exception):
        def __init__(self, *, trigger_dag_id: str, dag_run_id: str, conf: dict[str, str], **more: object) -> None:
            assert "note" not in more
            super().__init__(trigger_dag_id, dag_run_id, conf)

    assert vars(versions.run_to_trigger("t", "r", {}, note="why")).get("note", "why") == "why"
    monkeypatch.setitem(sys.modules, "an_older_airflow", SimpleNamespace(DagRunTriggerException=OlderTriggerError))
    monkeypatch.setitem(PLACES, "DagRunTriggerException", ("an_older_airflow",))
    older = versions.run_to_trigger("t", "r", {"image": "i"}, note="why")
    assert older.args == ("t", "r", {"image": "i"})


def test_the_module_itself_imports_nothing_of_airflow() -> None:
    """So whatever imports it pays only for the names that it takes."""
    code = "import sys, ml_metrics.airflow.versions; print([one for one in sys.modules if one.startswith('airflow')])"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "plugins")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
