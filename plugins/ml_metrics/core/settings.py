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
    bigquery_location: str = ""
    """Where a BigQuery dataset that does not exist is created, for example `EU` or `us-central1`. Without it, none is
    created. `location` in the connection's extra takes precedence."""
    maximum_bytes_billed: str = "10737418240"
    """How many bytes BigQuery may bill for one job: 10 GiB. A query beyond it fails and costs nothing. 0: no limit."""
    history_days: str = "400"
    """How many days of history are read from BigQuery, whatever the tables hold. 0: all."""
    cluster: str = "auto"
    """`local` runs pods as processes on this machine, `kubernetes` uses `kubernetes_conn_id`, `auto` uses
    the connection if it exists and the local cluster otherwise. Or the name of one of the `clusters`."""
    kubernetes_conn_id: str = "kubernetes_default"
    """The Airflow connection of the cluster."""
    clusters: str = ""
    """A YAML file of clusters by name, with how Airflow connects to each. Default: none."""
    namespace: str = ""
    """The Kubernetes namespace of workloads whose test and cluster name none. Default: that of the connection, else of
    the pod in which Airflow runs, else `default`."""
    airflow_namespace: str = ""
    """The Kubernetes namespaces of Airflow itself, separated by commas, in which no workload starts. Default: that of
    the pod in which Airflow runs, and that of KubernetesExecutor."""
    kubeconfig_programs: str = ""
    """`yes` lets a kubeconfig name programs and files, such as `gke-gcloud-auth-plugin`. They run as Airflow."""
    policy: str = ""
    """A YAML file that limits what test files may request from the cluster, and the recipients that they may name.
    Default: what Pod Security "baseline" allows."""
    price_book: str = ""
    """A YAML file of prices per chip hour, which give runs a cost. Default: none."""
    cost_emails: str = ""
    """The recipients of the weekly message about the cost of runs, separated by commas. Default: nobody."""
    pools: str = ""
    """Airflow pools in which tests wait for their accelerator, by its name or kind, for example `tpu, h100x8`.
    `ml-metrics pools --create` creates them."""
    local_cluster_root: str = ""
    """The folder of the local cluster: pods, logs and kubeconfig. Default: `$AIRFLOW_HOME/ml_metrics/cluster`."""
    local_cluster_confine: str = "auto"
    """`auto` confines workloads on the local cluster if the kernel has Landlock, `require` runs none without it, `off`
    runs them with Airflow's own rights."""
    local_cluster_folders: str = ""
    """Folders of this machine that workloads on the local cluster may read and write, separated by commas."""
    local_image: str = ""
    """The folder that every image maps to on the local cluster. Default: the parent of the DAGs folder."""
    cluster_patience: str = "300"
    """How many seconds a run waits for an unreachable cluster before its pod is created. After that, the limit is ten
    minutes."""
    by_hand: str = ""
    """What a manual run of any test may replace: `image`, `command`, or both. Default: only what the test file allows
    with `by_hand`."""
    reading_seconds: str = "10"
    """How many seconds slow test files may take together in each parse of the folder. A slow file becomes a DAG that
    states it; programs and large files that others keep waiting are read in the next parse."""
    channels: str = "outbox"
    """The channels of messages, separated by commas: `outbox`, `smtp`, `sendgrid`, `webhook`, `github`,
    `teams`, `google_chat`, `pagerduty`, `opsgenie`, `error_reporting`, `mlflow`, each also as `channel:connection`."""
    plain_http_hosts: str = ""
    """Hosts, separated by commas, to which channels may send their keys unencrypted, over `http://`. Default: only this
    machine."""
    outbox: str = ""
    """The folder of the `outbox` channel. Default: `$AIRFLOW_HOME/ml_metrics/outbox`."""
    mails_per_hour: str = "10"
    """The maximum number of messages to an owner in an hour, but at least one about each test. Later ones wait for the
    digest."""
    duty_emails: str = ""
    """The recipients of the message about a mass failure, separated by commas. Default: the default recipients."""
    mass_failure_tests: str = "20"
    """How many tests that break within an hour are a mass failure. 0: never."""
    mass_failure_percent: str = "30"
    """What percentage of the tests that ran within a day is a mass failure if it breaks within an hour: at least five
    tests. 0: never."""
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
    documents_key: str = field(default="", repr=False)
    """The key that signs the documents in run folders, at least 16 letters; after commas, earlier keys that are still
    trusted. Default: derived from Airflow's Fernet key, else the file `$AIRFLOW_HOME/ml_metrics/documents.key`."""
    listed_files: str = "100000"
    """How many files and folders of one run are listed. A warning counts the rest."""
    listed_name_bytes: str = "33554432"
    """The maximum length of all names of a run's files together."""
    listed_depth: str = "64"
    """How many folders of a run may be inside each other."""
    keep_runs_days: str = ""
    """After how many days the folder of a run that passed is removed, and so is the journal of a comparison or search.
    Default: never. The newest good run of a test stays, and so do runs of open incidents."""
    keep_failed_runs_days: str = ""
    """After how many days the folder of any other run is removed, and so is the journal of a comparison that found a
    metric worse or of one without an answer. Default: never."""
    keep_rows_days: str = ""
    """After how many days the rows of a run are removed from the warehouse: at least 90, on BigQuery at least
    `history_days`. Default: never. Runs that baselines need stay, and so do runs of open incidents."""
    shared_disk: str = ""
    """`yes` if the folders of these settings are on a disk that all machines of Airflow share. Without it, where tasks
    run on several machines, a folder outside a bucket is an error."""
    dashboard_url: str = ""
    """The address of the dashboard in messages. Default: Airflow's `[api] base_url` with `/ml-metrics` appended."""
    issue_url: str = ""
    """Where the inbox opens an issue about an incident, with `{title}` and `{body}`, for example
    `https://github.com/OWNER/NAME/issues/new?title={title}&body={body}`. Default: the inbox has no such link."""

    max_metrics: str = "5000"
    """The maximum number of metrics of a run. Those that are judged or required are kept first."""
    max_tags: str = "5000"
    """The maximum number of tags of a run that become metrics. Those with a judged metric are kept first; ten times as
    many series are read."""
    max_points: str = "10000000"
    """The maximum number of points of a run in all its tags, and of entries of its goodput log."""
    max_bytes_read: str = "68719476736"
    """The maximum number of bytes of a run's files that are read: 64 GiB."""
    max_bytes_unpacked: str = "4294967296"
    """The maximum number of bytes of a run's compressed files, unpacked: 4 GiB."""
    max_json_bytes: str = "67108864"
    """The maximum number of bytes of a JSON document: 64 MiB, if its values take at most 120 MB of memory. Lines, and
    documents in YAML, TOML or XML, have at most 4,194,304."""
    max_json_nesting: str = "64"
    """How deep lists and objects may be nested in JSON that a workload wrote."""
    max_text: str = "1000000"
    """The maximum number of characters of all texts that describe a run."""
    max_profile_bytes: str = "1073741824"
    """The maximum number of bytes of a profile: 1 GiB."""
    max_seconds: str = "1800"
    """How many seconds to read the files of a run. Data that was read until then counts."""

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
