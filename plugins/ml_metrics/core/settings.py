"""The settings of this package: section `[ml_metrics]` of Airflow's configuration.

They are read without importing Airflow, which takes seconds: too long for `ml-metrics collect`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ml_metrics.core.airflow_options import airflow_home, airflow_option, airflow_options, dags_folder
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.limits import Limits
from ml_metrics.core.text import listed

SECTION = "ml_metrics"
TITLE, BODY = "{title}", "{body}"
"""What the setting `issue_url` has in place of the texts of an issue."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. Each field is a key of section `[ml_metrics]`; an empty value means the default."""

    deployment: str = "local"
    """Part of every run key. Deployments that share a warehouse need different values."""
    storage_root: str = ""
    """The parent of run folders: a path or `gs://bucket/folder`. Default: `$AIRFLOW_HOME/ml_metrics/runs`."""
    config_root: str = ""
    """The folder of test files. Default: `include/metric_configs` beside or inside the DAGs folder."""
    warehouse_conn_id: str = "ml_metrics_warehouse"
    """The connection of the warehouse. Without it, `warehouse_file`."""
    warehouse_file: str = ""
    """The SQLite file of the warehouse. Default: `$AIRFLOW_HOME/ml_metrics/warehouse.db`."""
    dataset: str = "metrics_handler_dataset"
    """The BigQuery dataset."""
    bigquery_location: str = ""
    """Where a missing dataset is created, such as `EU`; `location` of the connection takes precedence."""
    maximum_bytes_billed: str = "10737418240"
    """What BigQuery may bill for one job: 10 GiB. 0: no limit."""
    history_days: str = "400"
    """How many days of history are read from BigQuery. 0: all."""
    cluster: str = "auto"
    """Where tests without a `cluster` run: `local` (this machine), `kubernetes` (`kubernetes_conn_id`), `auto` (that if
    it exists, else `local`), or one of `clusters`."""
    kubernetes_conn_id: str = "kubernetes_default"
    """The connection of the cluster."""
    clusters: str = ""
    """A YAML file of clusters by name."""
    namespace: str = ""
    """The namespace of workloads. Default: the connection's, else that of Airflow's pod, else `default`."""
    airflow_namespace: str = ""
    """Airflow's own namespaces. Default: that of its pod, and of KubernetesExecutor."""
    kubeconfig_programs: str = ""
    """`yes` lets a kubeconfig name programs and files, which run as Airflow."""
    policy: str = ""
    """A YAML file that limits test files. Default: Pod Security "baseline"."""
    price_book: str = ""
    """A YAML file of prices per chip hour."""
    cost_emails: str = ""
    """Who gets the weekly message about cost."""
    pools: str = ""
    """The accelerators, by name or kind, for which tests wait in pools."""
    local_cluster_root: str = ""
    """The folder of the local cluster. Default: `$AIRFLOW_HOME/ml_metrics/cluster`."""
    local_cluster_confine: str = "auto"
    """`auto` confines workloads if the kernel has Landlock, `require` runs none without it, `off` never confines."""
    local_cluster_folders: str = ""
    """Folders that workloads on the local cluster may use."""
    local_image: str = ""
    """The folder that every image maps to there. Default: the parent of the DAGs folder."""
    cluster_patience: str = "300"
    """How many seconds a run waits for an unreachable cluster before its pod is created."""
    by_hand: str = ""
    """What a manual run of any test may replace: `image`, `command`, or both."""
    reading_seconds: str = "10"
    """How many seconds slow test files may take together in each parse."""
    channels: str = "outbox"
    """The channels of messages, each also as `channel:connection`: `outbox`, `smtp`, `sendgrid`, `webhook`, `github`,
    `teams`, `google_chat`, `pagerduty`, `opsgenie`, `error_reporting`, `mlflow`."""
    plain_http_hosts: str = ""
    """Hosts, beside this machine, to which channels may send keys over `http://`."""
    outbox: str = ""
    """The folder of the channel `outbox`. Default: `$AIRFLOW_HOME/ml_metrics/outbox`."""
    mails_per_hour: str = "10"
    """The most messages to an owner in an hour; later ones wait for the digest."""
    duty_emails: str = ""
    """Who gets the message about a mass failure. Default: the default recipients."""
    mass_failure_tests: str = "20"
    """How many tests that break within an hour are a mass failure. 0: never."""
    mass_failure_percent: str = "30"
    """The same as a percentage of the day's tests, if at least five break."""
    trial_domain: str = ""
    """The domain of addresses: `alice` gets her trials' verdicts at `alice@DOMAIN`."""
    silent_runs: str = "10"
    """After how many runs without a decision a condition is in the digest. 0: never."""
    log_lines_in_mails: str = "20"
    """How many last lines of a failed container's log its mail shows; 0: none in any message."""
    secrets_project: str = ""
    """The project whose Secret Manager has SendGrid's key and mail addresses."""
    monitoring_project: str = ""
    """The project whose Cloud Monitoring has the memory usage of workloads."""
    documents_key: str = field(default="", repr=False)
    """The key that signs documents, at least 16 letters; after commas, earlier keys. Default: from Airflow's Fernet
    key, else `$AIRFLOW_HOME/ml_metrics/documents.key`."""
    listed_files: str = "100000"
    """The most files and folders of a run that are listed."""
    listed_name_bytes: str = "33554432"
    """The most bytes of their names."""
    listed_depth: str = "64"
    """How deep its folders may be nested."""
    keep_runs_days: str = ""
    """After how many days folders of passed runs are removed."""
    keep_failed_runs_days: str = ""
    """After how many days folders of other runs are removed."""
    keep_rows_days: str = ""
    """After how many days rows are removed: at least 90, on BigQuery at least `history_days`."""
    shared_disk: str = ""
    """`yes` if all machines of Airflow share the folders of these settings."""
    dashboard_url: str = ""
    """The address of the dashboard in messages. Default: `[api] base_url` with `/ml-metrics`."""
    issue_url: str = ""
    """Where the inbox opens an issue: `https://github.com/OWNER/NAME/issues/new?title={title}&body={body}`."""

    max_metrics: str = "5000"
    """The most metrics of a run; judged and required ones are kept first."""
    max_tags: str = "5000"
    """The most tags of a run that become metrics; ten times as many series are read."""
    max_points: str = "10000000"
    """The most points of a run."""
    max_bytes_read: str = "68719476736"
    """The most bytes of a run's files that are read: 64 GiB."""
    max_bytes_unpacked: str = "4294967296"
    """The most unpacked bytes of compressed files: 4 GiB."""
    max_json_bytes: str = "67108864"
    """The most bytes of a JSON document. Lines, YAML, TOML and XML have at most 4,194,304."""
    max_json_nesting: str = "64"
    """How deep JSON of a workload may be nested."""
    max_text: str = "1000000"
    """The most characters of all texts of a run."""
    max_profile_bytes: str = "1073741824"
    """The most bytes of a profile: 1 GiB."""
    max_seconds: str = "1800"
    """How many seconds to read the files of a run; what was read counts."""

    @property
    def limits(self) -> Limits:
        return Limits.of(self)

    @property
    def channel_names(self) -> tuple[str, ...]:
        return listed(self.channels)

    @classmethod
    def load(cls) -> Settings:
        found = airflow_options(SECTION, [field.name for field in fields(cls)])
        return cls(**{**_defaults(), **{name: value for name, value in found.items() if value}})


def checked_issue_url(settings: Settings) -> str:
    address = settings.issue_url
    if address and not (address.startswith(("https://", "http://")) and TITLE in address):
        raise ConfigError(
            f"[{SECTION}] issue_url: {address!r} is not an address with a title, such as "
            "https://github.com/OWNER/NAME/issues/new?title={title}&body={body}"
        )
    return address


def is_on(text: str, name: str) -> bool:
    """Not on by default. Raises ConfigError for anything but yes and no."""
    match text.strip().lower():
        case "yes" | "true" | "1":
            return True
        case "" | "no" | "false" | "0":
            return False
    raise ConfigError(f"[{SECTION}] {name}: {text!r} is neither yes nor no")


def _defaults() -> dict[str, str]:
    state, dags = airflow_home() / "ml_metrics", dags_folder()
    # Composer copies only `dags/` to every parser, so test files may have to be inside it
    inside = dags / "include" / "metric_configs"
    return {
        "storage_root": str(state / "runs"),
        "config_root": str(inside if inside.is_dir() else dags.parent / "include" / "metric_configs"),
        "warehouse_file": str(state / "warehouse.db"),
        "local_cluster_root": str(state / "cluster"),
        "local_image": str(dags.parent),
        "outbox": str(state / "outbox"),
        "dashboard_url": f"{(airflow_option('api', 'base_url') or 'http://localhost:8080').rstrip('/')}/ml-metrics",
    }
