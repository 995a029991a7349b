"""The settings of this package: section `[ml_metrics]` of Airflow's configuration.

They are read without importing Airflow, which takes seconds: too long for `ml-metrics collect`. The precedence is
Airflow's: the variable `AIRFLOW__ML_METRICS__<KEY>`, the output of the command in `..._CMD`, the file `airflow.cfg`,
the default.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from configparser import ConfigParser, Error
from dataclasses import dataclass, fields
from pathlib import Path

from ml_metrics.errors import ConfigError

SECTION = "ml_metrics"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. Each field is a key of section `[ml_metrics]`; an empty value means the default."""

    deployment: str = "local"
    """Part of every run key and row. Deployments that share a warehouse need different values."""
    storage_root: str = ""
    """The parent of all run folders: a path or `gs://bucket/folder`. Default: `$AIRFLOW_HOME/ml_metrics/runs`."""
    config_root: str = ""
    """The folder of test files. Default: `include/metric_configs` beside or inside the DAGs folder."""
    warehouse_conn_id: str = "ml_metrics_warehouse"
    """The Airflow connection of the warehouse. Without it, the warehouse is the SQLite file `warehouse_file`."""
    warehouse_file: str = ""
    """The SQLite file of the warehouse. Default: `$AIRFLOW_HOME/ml_metrics/warehouse.db`."""
    dataset: str = "metrics_handler_dataset"
    """The BigQuery dataset, if the warehouse is BigQuery."""
    cluster: str = "auto"
    """`local` runs pods as processes on this machine, `kubernetes` uses `kubernetes_conn_id`, `auto` uses
    the connection if it exists and the local cluster otherwise."""
    kubernetes_conn_id: str = "kubernetes_default"
    """The Airflow connection of the cluster."""
    pools: str = ""
    """Airflow pools in which tests wait for their accelerator, by its name or kind, for example `tpu, h100x8`.
    `ml-metrics pools --create` creates them."""
    local_cluster_root: str = ""
    """The folder of the local cluster: pods, logs and kubeconfig. Default: `$AIRFLOW_HOME/ml_metrics/cluster`."""
    local_cluster_confine: str = "auto"
    """`auto` confines workloads on the local cluster where the kernel has Landlock, `require` runs none where it has
    not, `off` runs them with Airflow's own rights."""
    local_cluster_folders: str = ""
    """Folders of this machine that workloads on the local cluster may read and write, separated by commas."""
    local_image: str = ""
    """The folder that every image maps to on the local cluster. Default: the parent of the DAGs folder."""
    channels: str = "outbox"
    """The channels of messages, separated by commas: `outbox`, `smtp`, `sendgrid`, `webhook`, `github`,
    `teams`, `google_chat`, `pagerduty`, `opsgenie`, `error_reporting`, each also as `channel:connection`."""
    outbox: str = ""
    """The folder of the `outbox` channel. Default: `$AIRFLOW_HOME/ml_metrics/outbox`."""
    mails_per_hour: str = "10"
    """The maximum number of messages to an owner in an hour. Later ones wait for the digest."""
    duty_emails: str = ""
    """Who gets the one message about a mass failure, separated by commas. Default: the default recipients."""
    mass_failure_tests: str = "20"
    """How many tests that break within an hour are a mass failure. 0: no number is."""
    mass_failure_percent: str = "30"
    """Which part of the tests that ran within a day, if it breaks within an hour, is a mass failure: at least five
    tests. 0: no part is."""
    trial_domain: str = ""
    """The domain of users' mail addresses: the verdict of a trial that `alice` starts goes to `alice@DOMAIN`.
    Default: only users whose name is an address get it."""
    silent_runs: str = "10"
    """After how many runs without a decision a condition is in the digest and the heartbeat. 0: never."""
    log_lines_in_mails: str = "20"
    """How many of the last lines of a failed container's log its mail shows. 0 keeps logs out of messages."""
    secrets_project: str = ""
    """The Google Cloud project whose Secret Manager stores SendGrid's key and mail addresses. Default: none."""
    monitoring_project: str = ""
    """The Google Cloud project whose Cloud Monitoring has the memory usage of workloads on `kubernetes_conn_id`.
    Default: none."""
    dashboard_url: str = ""
    """The address of the dashboard in messages. Default: Airflow's `[api] base_url` with `/ml-metrics` appended."""

    @classmethod
    def load(cls) -> Settings:
        """Read the settings from the environment of this process."""
        airflow_cfg = _airflow_cfg()
        section = dict(airflow_cfg[SECTION]) if airflow_cfg.has_section(SECTION) else {}
        found = {field.name: _setting(field.name, section) for field in fields(cls)}
        defaults = {**_default_paths(_dags_folder(airflow_cfg)), "dashboard_url": _dashboard_url(airflow_cfg)}
        return cls(**{**defaults, **{name: value for name, value in found.items() if value}})


def airflow_home() -> Path:
    """Return Airflow's home folder, by Airflow's own rule."""
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()


def _default_paths(dags: Path) -> dict[str, str]:
    state = airflow_home() / "ml_metrics"
    # Composer copies only `dags/` to every parser, so test files may have to be inside it
    inside = dags / "include" / "metric_configs"
    return {
        "storage_root": str(state / "runs"),
        "config_root": str(inside if inside.is_dir() else dags.parent / "include" / "metric_configs"),
        "warehouse_file": str(state / "warehouse.db"),
        "local_cluster_root": str(state / "cluster"),
        "local_image": str(dags.parent),
        "outbox": str(state / "outbox"),
    }


def _dags_folder(airflow_cfg: ConfigParser) -> Path:
    configured = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or airflow_cfg.get("core", "dags_folder", fallback="")
    return Path(configured).expanduser() if configured else airflow_home() / "dags"


def _dashboard_url(airflow_cfg: ConfigParser) -> str:
    base = os.environ.get("AIRFLOW__API__BASE_URL") or airflow_cfg.get("api", "base_url", fallback="")
    return f"{(base or 'http://localhost:8080').rstrip('/')}/ml-metrics"


def _setting(name: str, section: dict[str, str]) -> str | None:
    variable = f"AIRFLOW__{SECTION.upper()}__{name.upper()}"
    if variable in os.environ:
        return os.environ[variable]
    command = os.environ.get(f"{variable}_CMD") or section.get(f"{name}_cmd")
    if command and name not in section:
        return _output_of(command, variable)
    return section.get(name)


def _output_of(command: str, variable: str) -> str:
    try:
        done = subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{variable}_CMD: the command could not be run ({type(error).__name__})") from error
    return done.stdout.strip()


def _airflow_cfg() -> ConfigParser:
    path = Path(os.environ.get("AIRFLOW_CONFIG", airflow_home() / "airflow.cfg")).expanduser()
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except Error as error:
        raise ConfigError(f"{path}: cannot be read as Airflow's configuration: {error}") from error
    return parser
