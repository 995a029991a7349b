"""Load this project's plugin and DAGs with Airflow's own plugin manager and DAG processor, in separate processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from not_installed import HIDE

PROJECT = Path(__file__).parents[3]

LOAD = """
import json, sys
standard = {name: id(sys.modules[name]) for name in sys.stdlib_module_names if name in sys.modules}
from airflow import plugins_manager
if hasattr(plugins_manager, "_get_plugins"):
    plugins, errors = plugins_manager._get_plugins()
else:  # 3.1
    plugins_manager.ensure_plugins_loaded()
    plugins, errors = plugins_manager.plugins, plugins_manager.import_errors
moved = [name for name, module in standard.items() if id(sys.modules.get(name)) != module]
ours = [name for name in sys.modules if "ml_metrics" in name]
foreign = [n for n in sys.stdlib_module_names if "/plugins/" in str(getattr(sys.modules.get(n), "__file__", ""))]
sources = [type(p.source).__name__ for p in plugins if p.name == "ml_metrics"]
print(json.dumps({"names": [p.name for p in plugins], "sources": sources,
                  "errors": {k: str(v) for k, v in errors.items()},
                  "moved": moved + foreign, "ours": ours}))
"""

LIGHT = {
    "airflow",
    "airflow.provider_info",
    "core",
    "core.airflow_options",
    "core.errors",
    "core.lazy",
    "core.limits",
    "core.settings",
    "core.text",
    "core.values",
    "ui",
    "ui.plugin",
}
"""Our modules that every component of Airflow imports: they need the standard library and Airflow's plugins only."""


def output_of(code: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONWARNINGS": "",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return output


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("before", "source"), [("", "EntryPointSource"), (HIDE, "PluginsDirectorySource")], ids=["wheel", "folder"]
)
def test_airflow_loads_the_plugin_once_and_shadows_no_module(before: str, source: str) -> None:
    """Of a package that is installed, the plugin comes from the entry point, and the file in `plugins/` adds none."""
    output = output_of(before + LOAD)
    assert output["errors"] == {}
    assert output["names"].count("ml_metrics") == 1
    assert output["sources"] == [source]
    assert output["moved"] == []
    assert {"ml_metrics", "ml_metrics.core.lazy", "ml_metrics.ui.plugin", "ml_metrics_plugin"} <= set(output["ours"])
    assert {name.removeprefix("ml_metrics.") for name in output["ours"]} - {"ml_metrics", "ml_metrics_plugin"} <= LIGHT


def test_the_other_project_of_this_name_is_told_where_the_plugin_is_imported(tmp_path: Path) -> None:
    (tmp_path / "ml_metrics").mkdir()
    (tmp_path / "ml_metrics" / "__init__.py").write_text("def auc(): ...\n")
    (tmp_path / "ml_metrics-0.1.4.dist-info").mkdir()
    (tmp_path / "ml_metrics-0.1.4.dist-info" / "METADATA").write_text("Name: ml-metrics\nVersion: 0.1.4\n")
    code = "import sys; sys.path[:0] = sys.argv[1:]; import ml_metrics_plugin"
    environment = {"PATH": os.environ["PATH"], "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(tmp_path), str(PROJECT / "plugins")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.endswith("whose module hides ML Metrics: python -m pip uninstall ml-metrics\n"), done.stderr
