"""Where `ml-metrics demo` runs: this checkout's Airflow, or an installed package without any files of a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ml_metrics import storage
from ml_metrics.airflow_options import airflow_home, airflow_option
from ml_metrics.errors import MlMetricsError
from ml_metrics.included import included
from ml_metrics.settings import Settings

TEST_FILE = "mnist-cpu.yaml"
DAG_FILE = '''"""An Airflow DAG for the test of `ml-metrics demo`."""

from ml_metrics import load_tests

load_tests(globals(), own_dags=False)
'''


class DemoError(MlMetricsError):
    """The demo took another course than it should."""


def prepare() -> bool:
    """Make this process and its children find the example test. Returns whether it is the user's own copy."""
    os.umask(0o077)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    own = Path(Settings.load().config_root, TEST_FILE).is_file()
    if not own:
        _use_included_files()
    _make_database()
    return own


def _use_included_files() -> None:
    """Use the test and the workload of the installed package, and a DAG file in Airflow's home."""
    dags = airflow_home() / "ml_metrics" / "demo" / "dags"
    storage.write_bytes(str(dags / "tests.py"), DAG_FILE.encode())
    os.environ |= {
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__ML_METRICS__CLUSTER": "local",
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": str(included("metric_configs")),
        "AIRFLOW__ML_METRICS__LOCAL_IMAGE": str(included("workloads").parents[1]),
    }


def _make_database() -> None:
    """Make Airflow's own database if it is a SQLite file that does not exist yet."""
    address = airflow_option("database", "sql_alchemy_conn") or f"sqlite:///{airflow_home() / 'airflow.db'}"
    file, _, _ = address.removeprefix("sqlite:///").partition("?")
    if not address.startswith("sqlite:///") or Path(file).exists():
        return
    done = subprocess.run(["airflow", "db", "migrate"], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        sys.stderr.writelines(done.stderr.splitlines(keepends=True)[-20:])
        raise DemoError("`airflow db migrate` failed; its last lines are above")
