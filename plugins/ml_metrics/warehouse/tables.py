"""The tables, defined once. Every engine makes, checks and extends its own from these definitions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ml_metrics.model import BROKEN

VERDICT_IS_BROKEN = "verdict IN ({})".format(", ".join(sorted(f"'{outcome}'" for outcome in BROKEN)))
"""The rows of broken metrics. It is the condition of an index: databases that exist have it in exactly this text."""


class Kind(StrEnum):
    """What a column holds; the names are BigQuery's."""

    STRING = "STRING"
    INTEGER = "INTEGER"
    FLOAT = "FLOAT"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. The required ones are the older system's; a column of ours is never required."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    also: tuple[Kind, ...] = ()
    """Other kinds that an existing table may have here, because a version of the older system made it so."""


@dataclass(frozen=True, slots=True)
class PageIndex:
    """SQLite and PostgreSQL only: an index that answers a question of a page by itself."""

    name: str
    columns: tuple[str, ...]
    where: str | None = None
    """Of which rows, word for word as the query that is to use it says it; None for all."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with what makes a row unique and how its rows are looked up."""

    name: str
    about: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    page_indexes: tuple[PageIndex, ...] = ()
    partition: str | None = None
    """BigQuery only: the time column whose day is the partition."""
    cluster: tuple[str, ...] = ()
    """BigQuery only."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


def _required(name: str, kind: Kind, about: str) -> Column:
    return Column(name, kind, about, required=True)


JOB_HISTORY = Table(
    "job_history",
    "One row for each run of each test.",
    (
        _required("uuid", Kind.STRING, "The run's key: the same for every try, clear and backfill."),
        _required("test_name", Kind.STRING, "The test."),
        _required("test_type", Kind.STRING, "For example func or conv."),
        _required("accelerator", Kind.STRING, "For example v5litepod-16, h100x8 or cpu."),
        _required("framework_version", Kind.STRING, "For example tf-nightly."),
        _required("job_status", Kind.STRING, "success, failure, timeout or missed."),
        _required("num_failures", Kind.INTEGER, "Attempts of the workload that failed."),
        _required("job_duration_sec", Kind.INTEGER, "From the start of the container that ran to its end."),
        _required("timestamp", Kind.TIMESTAMP, "When the workload stopped."),
        _required("stackdriver_logs_link", Kind.STRING, "Where its logs are."),
        Column("msg_publish_time", Kind.INTEGER, "Kept for the older system's rows.", also=(Kind.STRING,)),
        Column("logs_download_command", Kind.STRING, "A command that downloads the logs as text."),
        Column("kubernetes_workload_link", Kind.STRING, "The workload's page in the console."),
        Column("dag_id", Kind.STRING, "Airflow's DAG."),
        Column("run_id", Kind.STRING, "Airflow's run."),
        Column("owner", Kind.STRING, "Who looks after the test."),
        Column("started_at", Kind.TIMESTAMP, "When the container that ran was started."),
        Column("ended_at", Kind.TIMESTAMP, "When it ended."),
        Column("queued_seconds", Kind.FLOAT, "From asking for the pod to the start of its container."),
        Column("failure_reason", Kind.STRING, "For example OOMKilled, ImagePullBackOff or ExitCode:3."),
        Column("image", Kind.STRING, "The image that ran."),
        Column("goodput", Kind.FLOAT, "Productive time in percent of total time."),
        Column("verdict", Kind.STRING, "pass, fail, warn (only a warning is broken), insufficient_data or skipped."),
        Column("loaded_at", Kind.TIMESTAMP, "When this row was written."),
    ),
    key=("uuid",),
    indexes=(("test_name", "timestamp"),),
    page_indexes=(
        PageIndex(
            "job_history_shown",
            ("timestamp", "test_name", "dag_id", "job_status", "verdict", "failure_reason", "goodput"),
        ),
        PageIndex("job_history_standing", ("test_name", "timestamp", "job_status", "verdict")),
    ),
    partition="timestamp",
    cluster=("test_name",),
)

METRIC_HISTORY = Table(
    "metric_history",
    "One row for each metric of each run.",
    (
        _required("uuid", Kind.STRING, "The run's key."),
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "The wall time of the point; the stop time for computed metrics."),
        _required("metric_name", Kind.STRING, "The metric: <tag>_<strategy>, or a computed one."),
        Column("metric_value", Kind.FLOAT, "Null if the run produced no finite number."),
        Column("metric_lower_bound", Kind.FLOAT, "Null where there is no lower bound."),
        Column("metric_upper_bound", Kind.FLOAT, "Null where there is no upper bound."),
        Column("verdict", Kind.STRING, "pass, fail, insufficient_data, missing, non_finite, skipped; null: no rule."),
        Column("rule", Kind.STRING, "The condition in words."),
        Column("baseline_points", Kind.INTEGER, "How many earlier runs the bounds were made from."),
        Column("step", Kind.INTEGER, "The step of the point."),
        Column("reference", Kind.FLOAT, "The level of the baseline that the bounds were computed from."),
        Column("spread", Kind.FLOAT, "The spread of the baseline that the bounds were computed from."),
    ),
    key=("uuid", "metric_name"),
    indexes=(("test_name", "metric_name", "timestamp"),),
    page_indexes=(PageIndex("metric_history_broken", ("timestamp",), VERDICT_IS_BROKEN),),
    partition="timestamp",
    cluster=("test_name", "metric_name"),
)

METADATA_HISTORY = Table(
    "metadata_history",
    "What else is known about a run: image digest, parameters, text summaries.",
    (
        _required("uuid", Kind.STRING, "The run's key."),
        _required("metadata_key", Kind.STRING, "What it is."),
        Column("metadata_value", Kind.STRING, "Its value, as text."),
    ),
    key=("uuid", "metadata_key"),
    cluster=("uuid",),
)

ACCEPTANCES = Table(
    "acceptances",
    "Levels that a person declared to be the new normal; the baseline starts anew from that run.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("metric_name", Kind.STRING, "The metric."),
        _required("uuid", Kind.STRING, "The first run of the new level."),
        _required("timestamp", Kind.TIMESTAMP, "That run's time."),
        Column("metric_value", Kind.FLOAT, "The metric's value in that run."),
        _required("accepted_at", Kind.TIMESTAMP, "When it was accepted."),
        _required("accepted_by", Kind.STRING, "By whom."),
        _required("reason", Kind.STRING, "Why."),
    ),
    key=("test_name", "metric_name", "uuid"),
)

ALERTS = Table(
    "alerts",
    "What a person was told, one row for each message: an incident opened, changed, closed. Rows are only added.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("opened_by", Kind.STRING, "The incident: the key of the run that broke first."),
        _required("kind", Kind.STRING, "opened, changed, acknowledged or closed."),
        _required("uuid", Kind.STRING, "The key of the run that this message is about."),
        _required("timestamp", Kind.TIMESTAMP, "When the message was recorded."),
        _required("fingerprint", Kind.STRING, "What is broken, without the numbers."),
        _required("reasons", Kind.STRING, "The reasons, as a JSON list of texts."),
        Column("said_by", Kind.STRING, "Who acknowledged the incident."),
        Column("note", Kind.STRING, "What they said about it."),
    ),
    key=("test_name", "opened_by", "kind", "uuid"),
)

DELIVERIES = Table(
    "deliveries",
    "What became of each message on each channel. Rows are only added.",
    (
        _required("message", Kind.STRING, "The message: the run's key and the occasion."),
        _required("channel", Kind.STRING, "For example outbox, smtp, sendgrid; digest for what waits for one."),
        _required("state", Kind.STRING, "delivered, kept (not delivered, in the outbox), held, or summarised."),
        _required("timestamp", Kind.TIMESTAMP, "When it came to that."),
        _required("test_name", Kind.STRING, "The test; empty for a message about several."),
        _required("uuid", Kind.STRING, "The key of the run; empty for a message about several."),
        _required("occasion", Kind.STRING, "broken, worse, recovered, overdue, warning, digest or heartbeat."),
        _required("owner", Kind.STRING, "Whose hourly limit it counts for."),
        _required("recipients", Kind.STRING, "To whom it went, as a JSON list of addresses."),
        _required("subject", Kind.STRING, "Its subject."),
        _required("reasons", Kind.STRING, "Its sentences, as a JSON list of texts."),
        _required("attempts", Kind.INTEGER, "How often it was tried."),
        _required("detail", Kind.STRING, "Where it is, or why it could not be delivered."),
    ),
    key=("message", "channel", "state"),
    indexes=(("timestamp",),),
    partition="timestamp",
    cluster=("owner",),
)

QUARANTINES = Table(
    "quarantines",
    "Tests that a person keeps quiet for a while. Rows are only added; the newest of a test holds.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "When this was said."),
        _required("until", Kind.TIMESTAMP, "The end of the quiet; a time that is past lifts an earlier one."),
        _required("reason", Kind.STRING, "Why."),
        _required("said_by", Kind.STRING, "By whom."),
    ),
    key=("test_name", "timestamp"),
)

RUN_TABLES = (JOB_HISTORY, METRIC_HISTORY, METADATA_HISTORY)
"""The tables that one load changes together."""

TABLES = (*RUN_TABLES, ACCEPTANCES, ALERTS, DELIVERIES, QUARANTINES)
