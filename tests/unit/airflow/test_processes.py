"""Which process of Airflow needs what: each does its part with what docs/composer.md lists for it, and no more."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from ml_metrics import TestDefinition
from ml_metrics.airflow import dags
from ml_metrics.airflow.doctor import FETCHED, RUNNING, SOON_SECONDS, lost_worker
from stored_dags import stored
from warm_python import WarmPython, warm_python

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "composer.md").read_text(encoding="utf-8")
OURS = {"airflow-provider-ml-metrics", "ml-metrics-telemetry"}
PROVIDER = "apache-airflow-providers-"
EVERY_PROCESS = """
import alembic.command, cadwyn, fastapi, fsspec, httpx, jinja2.sandbox, msgspec, opentelemetry.sdk.metrics
import opentelemetry.sdk.trace, pydantic_settings, rich.console, sqlalchemy.orm, uvicorn
"""
"""Libraries that Airflow itself requires, imported once for all, before anything is hidden: none of them may be."""
HIDE = """
import importlib.abc, importlib.metadata, importlib_metadata, json, sys

hidden, installed, stored_dag = json.loads(sys.argv[2])
hidden, installed = set(hidden), set(installed)
imported = hidden & set(sys.modules) - {"_distutils_hack"}  # which starts with the interpreter
assert not imported, imported
for kind in (importlib.metadata.Distribution, importlib_metadata.Distribution):
    def discover(cls, _all=kind.discover, **options):
        return (one for one in _all(**options) if one._normalized_name.replace("_", "-") in installed)  # of its file
    kind.discover = classmethod(discover)

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in hidden:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hidden())
"""
PARTS = {
    "scheduler": """
from airflow.serialization import serialized_objects
kind = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
dag = kind.from_dict(stored_dag)
print(sorted(dag.task_ids)[0])
""",
    "DAG processor": f"""
from ml_metrics.airflow.versions import DagBag
bag = DagBag({str(PROJECT / "dags" / "ml_tests.py")!r})
assert not bag.import_errors, bag.import_errors
print(*bag.dags)
""",
    "triggerer": """
import asyncio
from airflow._shared.module_loading import import_string
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
run = {"dag_id": "t", "dag_run_id": "manual__1", "queued_at": "2026-01-01T00:00:00Z"}
import_string("ml_metrics.airflow.operators.answer_trigger.AnswerTrigger")
import_string("ml_metrics.airflow.operators.pod_trigger.PodTrigger")
overdue = import_string("ml_metrics.airflow.callbacks.notify_overdue")
asyncio.run(overdue("t", "owner", [], "", {"dag_run": run}))
print("t")
""",
    "API server": """
from importlib import import_module
from pkgutil import iter_modules
import ml_metrics.ui.dashboard
from ml_metrics.airflow.connections import warehouse
from ml_metrics.ui.plugin import MlMetricsPlugin
for module in iter_modules(ml_metrics.ui.dashboard.__path__, "ml_metrics.ui.dashboard."):
    import_module(module.name)
with warehouse() as opened:
    assert opened.runs.newest("t") == []
print("t")
""",
}


distributions = cache(packages_distributions)


def rows(heading: str) -> list[list[str]]:
    """Return the table below a heading of the page."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def installed_for(packages: str) -> set[str]:
    """Return Airflow's distributions, some more, and all that these require."""
    names = ["apache-airflow-core", "apache-airflow-task-sdk", *re.findall(r"`([\w-]+)`", packages)]
    wanted, seen = [(name, "") for name in names], set[tuple[str, str]]()
    while wanted:
        name, extra = one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        for text in requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                wanted += [(normal(needed.name), of) for of in ("", *needed.extras)]
    return {name for name, _ in seen}


def hidden_without(installed: set[str]) -> list[str]:
    """Return the modules of all other distributions of this environment."""
    owners = {name: set(map(normal, found)) for name, found in distributions().items()}
    owners |= {"ml_metrics": {"airflow-provider-ml-metrics"}, "ml_metrics_telemetry": {"ml-metrics-telemetry"}}
    modules = [name for name, found in owners.items() if installed.isdisjoint(found)]
    providers = {name for found in owners.values() for name in found if PROVIDER in name} - installed
    return [*modules, *(f"airflow.providers.{name.removeprefix(PROVIDER).replace('-', '.')}" for name in providers)]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def processes(home: Path) -> Iterator[WarmPython]:
    """Processes that find what is hidden from them neither installed nor imported."""
    configs = home / "configs"
    configs.mkdir()
    (configs / "t.yaml").write_text("{name: t, image: i, command: [c]}")
    environment = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(configs),
        "PYTHONPATH": str(PROJECT / "plugins"),
        "PYTHONWARNINGS": "",
    }
    with warm_python(EVERY_PROCESS, f"{HIDE}\nexec({PARTS!r}[sys.argv[1]])", **environment) as python:
        yield python


@pytest.mark.parametrize("process", PARTS)
def test_each_process_does_its_part_with_what_the_page_lists(
    process: str, processes: WarmPython, home: Path, tmp_path: Path
) -> None:
    (row,) = (row for row in rows("Which process needs what") if row[0] == process)
    installed = installed_for(row[2]) | (OURS if row[1] != "no" else set())
    hidden = hidden_without(installed)
    assert {"pandas", "gcsfs", "airflow.providers.google"} <= set(hidden)
    assert ("ml_metrics" in hidden) is (process == "scheduler")
    dag = stored(dags.accelerator_test(TestDefinition(name="t", image="i", command=("c",))))
    done = processes.run(process, json.dumps([hidden, sorted(installed), dag]), folder=tmp_path)
    assert done.returncode == 0, done.output[-5000:]
    assert done.output.split()[-1] == ("assert_success" if process == "scheduler" else "t")
    if process == "triggerer":
        (mail,) = (home / "ml_metrics" / "outbox").glob("*.eml")
        assert "t is overdue" in mail.read_text()


def test_with_the_documented_settings_a_lost_worker_costs_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.configuration import conf

    table = rows("When a worker is lost")
    for name, default, _ in table:
        section, option = name.strip("`[").split("] ")
        assert float(default) == float(str(conf.get_default_value(section, option))) == {**RUNNING, **FETCHED}[option]
    assert len(table) == len(RUNNING) + len(FETCHED)
    at_defaults = lost_worker()
    assert (at_defaults.running, at_defaults.fetched) == (390, 740), "6.5 and 12.3 minutes"
    assert "When a worker is lost" in str(at_defaults)
    for name, _, shortest in table:
        section, option = name.strip("`[").split("] ")
        monkeypatch.setenv(f"AIRFLOW__{section}__{option}".upper(), shortest)
    found = lost_worker()
    assert max(found.running, found.fetched) <= SOON_SECONDS
    assert str(found) == (
        "a task of a lost worker runs again within 120 seconds, one that it had only fetched within 95"
    )
