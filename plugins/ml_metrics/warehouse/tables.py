"""The definitions of the tables. Every engine creates, checks and extends its tables from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import BROKEN
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


VERDICT_IS_BROKEN = "verdict IN ({})".format(", ".join(sorted(f"'{outcome}'" for outcome in BROKEN)))
"""Selects the rows of broken metrics. Existing databases have an index with exactly this condition."""


class Kind(StrEnum):
    """The type of a column, as BigQuery names it."""

    STRING = "STRING"
    INTEGER = "INTEGER"
    FLOAT = "FLOAT"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. A column that was added to a table of the older system is never required."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    also: tuple[Kind, ...] = ()
    """Other types that the column may have in an existing table, created by a version of the older system."""


@dataclass(frozen=True, slots=True)
class PageIndex:
    """An index for one query of a dashboard page; in SQLite and PostgreSQL only."""

    name: str
    columns: tuple[str, ...]
    where: str | None = None
    """The condition of a partial index, in the same text as in the query; None for all rows."""
    replaces: tuple[str, ...] = ()
    """Indexes of older versions for the same query, which are dropped when this one is created."""
    include: tuple[str, ...] = ()
    """Columns that the query reads besides. In SQLite, each index has the key of the table anyway."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table with its key and its indexes."""

    name: str
    about: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    page_indexes: tuple[PageIndex, ...] = ()
    partition: str | None = None
    """BigQuery only: the time column whose month is the partition. A table that exists keeps the partitions it has."""
    cluster: tuple[str, ...] = ()
    """BigQuery only."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def index_names(self) -> tuple[str, ...]:
        plain = (f"{self.name}_by_{'_'.join(columns)}" for columns in self.indexes)
        return (*plain, *(index.name for index in self.page_indexes))


def _required(name: str, kind: Kind, about: str) -> Column:
    return Column(name, kind, about, required=True)


DEPLOYMENT = Column(
    "deployment",
    Kind.STRING,
    "The deployment of Airflow, a setting; null in rows of older versions, which belong to every deployment.",
)


JOB_HISTORY = Table(
    "job_history",
    "One row for each run of each test.",
    (
        _required("uuid", Kind.STRING, "The run key: the same for every retry, clear and backfill."),
        _required("test_name", Kind.STRING, "The test."),
        _required("test_type", Kind.STRING, "For example func or conv."),
        _required("accelerator", Kind.STRING, "For example v5litepod-16, h100x8 or cpu."),
        _required("framework_version", Kind.STRING, "For example tf-nightly."),
        _required("job_status", Kind.STRING, "success, failure, timeout or missed."),
        _required("num_failures", Kind.INTEGER, "The number of failed attempts of the workload."),
        _required("job_duration_sec", Kind.INTEGER, "Seconds from the start of the container to its end."),
        _required("timestamp", Kind.TIMESTAMP, "When the workload stopped."),
        _required("stackdriver_logs_link", Kind.STRING, "The page of its logs in the console."),
        Column("msg_publish_time", Kind.INTEGER, "Only in rows of the older system.", also=(Kind.STRING,)),
        Column("logs_download_command", Kind.STRING, "A command that downloads the logs as text."),
        Column("kubernetes_workload_link", Kind.STRING, "The workload's page in the console."),
        Column("dag_id", Kind.STRING, "The DAG in Airflow."),
        Column("run_id", Kind.STRING, "The run in Airflow."),
        Column("owner", Kind.STRING, "The owner of the test."),
        Column("started_at", Kind.TIMESTAMP, "When the container started."),
        Column("ended_at", Kind.TIMESTAMP, "When the container ended."),
        Column("queued_seconds", Kind.FLOAT, "Seconds from the creation of the pod to the start of its container."),
        Column("failure_reason", Kind.STRING, "For example OOMKilled, ImagePullBackOff or ExitCode:3."),
        Column("image", Kind.STRING, "The image of the workload."),
        Column("goodput", Kind.FLOAT, "Productive time as a percentage of the total time."),
        Column(
            "verdict",
            Kind.STRING,
            "pass, fail, warn (only warnings), insufficient_data, skipped; recorded: no conditions.",
        ),
        Column("loaded_at", Kind.TIMESTAMP, "When this row was written."),
        Column("trial", Kind.STRING, "What was changed in a trial, for example image, size; null for a regular run."),
        Column("started_by", Kind.STRING, "The user who started the run by hand; otherwise null."),
        DEPLOYMENT,
    ),
    key=("uuid",),
    indexes=(("test_name", "timestamp"),),
    page_indexes=(
        # `trial` is among the columns because SQLite reads it although the condition of the index implies it
        PageIndex(
            "job_history_by_time",
            (
                "timestamp",
                "test_name",
                "dag_id",
                "job_status",
                "verdict",
                "failure_reason",
                "goodput",
                "deployment",
                "trial",
            ),
            "trial IS NULL",
            replaces=("job_history_shown", "job_history_regular"),
            include=("uuid",),
        ),
        PageIndex(
            "job_history_regular_standing",
            ("test_name", "timestamp", "job_status", "verdict", "deployment", "trial"),
            "trial IS NULL",
            replaces=("job_history_standing",),
        ),
        PageIndex("job_history_of_dag", ("dag_id", "run_id")),
        PageIndex("job_history_trials", ("test_name", "deployment", "trial", "timestamp"), "trial IS NOT NULL"),
    ),
    partition="timestamp",
    cluster=("test_name",),
)

METRIC_HISTORY = Table(
    "metric_history",
    "One row for each metric of each run.",
    (
        _required("uuid", Kind.STRING, "The run key."),
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "The wall time of the point; for computed metrics, the end of the run."),
        _required("metric_name", Kind.STRING, "The metric: <tag>_<strategy>, or the name of a computed metric."),
        Column("metric_value", Kind.FLOAT, "The value; null if the run produced no finite number."),
        Column("metric_lower_bound", Kind.FLOAT, "Null if there is no lower bound."),
        Column("metric_upper_bound", Kind.FLOAT, "Null if there is no upper bound."),
        Column(
            "verdict",
            Kind.STRING,
            "pass, fail, insufficient_data, missing, non_finite or skipped; null without a rule.",
        ),
        Column("rule", Kind.STRING, "The condition as text."),
        Column("baseline_points", Kind.INTEGER, "The number of earlier runs that the bounds were computed from."),
        Column("step", Kind.INTEGER, "The step of the point."),
        Column("reference", Kind.FLOAT, "The level of the baseline that the bounds were computed from."),
        Column("spread", Kind.FLOAT, "The spread of the baseline that the bounds were computed from."),
        Column("condition", Kind.STRING, "The pattern of the condition, or default; empty if it names the metric."),
        Column("unit", Kind.STRING, "The unit of the value, for example s, B or tokens/s."),
        Column("better", Kind.STRING, "higher, lower or neither; null if it is unknown."),
        Column("non_finite", Kind.FLOAT, "The share of the points of the run that were not finite numbers."),
        Column("severity", Kind.STRING, "warn if the condition only warns; otherwise null."),
        Column("trial", Kind.STRING, "As in job_history."),
        DEPLOYMENT,
    ),
    key=("uuid", "metric_name"),
    indexes=(("test_name", "metric_name", "timestamp"),),
    page_indexes=(PageIndex("metric_history_broken", ("timestamp",), VERDICT_IS_BROKEN),),
    partition="timestamp",
    cluster=("test_name", "metric_name"),
)

METADATA_HISTORY = Table(
    "metadata_history",
    "The metadata of runs: image digest, parameters, text summaries.",
    (
        _required("uuid", Kind.STRING, "The run key."),
        _required("metadata_key", Kind.STRING, "The name of the text."),
        Column("metadata_value", Kind.STRING, "The text."),
        Column("timestamp", Kind.TIMESTAMP, "When the workload stopped; null in rows of older versions."),
    ),
    key=("uuid", "metadata_key"),
    partition="timestamp",
    cluster=("uuid",),
)

ACCEPTANCES = Table(
    "acceptances",
    "Levels of metrics that a user accepted. The baseline restarts from that run.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("metric_name", Kind.STRING, "The metric."),
        _required("uuid", Kind.STRING, "The first run of the new level."),
        _required("timestamp", Kind.TIMESTAMP, "When that run stopped."),
        Column("metric_value", Kind.FLOAT, "The value of the metric in that run."),
        _required("accepted_at", Kind.TIMESTAMP, "When the level was accepted."),
        _required("accepted_by", Kind.STRING, "The user."),
        _required("reason", Kind.STRING, "The reason."),
        DEPLOYMENT,
    ),
    key=("test_name", "metric_name", "uuid"),
)

ALERTS = Table(
    "alerts",
    "One row for each change of an incident, and for what a user said about it.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("opened_by", Kind.STRING, "The incident, identified by the key of the message that opened it."),
        _required("kind", Kind.STRING, "opened, changed, acknowledged, assigned, regression, no_regression or closed."),
        _required("uuid", Kind.STRING, "The key of the run that the alert was about."),
        _required("timestamp", Kind.TIMESTAMP, "When the message was decided."),
        _required("fingerprint", Kind.STRING, "What is broken, without the numbers."),
        _required("reasons", Kind.STRING, "The reasons as a JSON list of texts."),
        Column("said_by", Kind.STRING, "Who acknowledged, assigned or assessed the incident."),
        Column("note", Kind.STRING, "The note of that user; of an assigned incident, the person."),
        Column("cause", Kind.STRING, "What explains the incident and may explain others; empty if unknown."),
        Column("cost", Kind.STRING, "What the regression costs a week, or `missing` with the reason; empty for none."),
        DEPLOYMENT,
    ),
    key=("test_name", "opened_by", "kind", "uuid"),
)

MESSAGES = Table(
    "messages",
    "One row for each message. It is added when the message is decided, before it is sent.",
    (
        _required("message", Kind.STRING, "The key of the message: the run key, a number, the occasion, and a hash."),
        _required("deployment", Kind.STRING, "The Airflow deployment."),
        _required("uuid", Kind.STRING, "The run key; empty for a message that is not about one run."),
        _required("test_name", Kind.STRING, "The test; empty for a message about several tests."),
        _required("owner", Kind.STRING, "The owner whose hourly limit the message counts towards."),
        _required("occasion", Kind.STRING, "broken, worse, recovered, overdue, warning, digest, heartbeat, ..."),
        _required("content_hash", Kind.STRING, "A hash of what the message states."),
        _required("state", Kind.STRING, "pending, held (for the digest), sent, summarised (in a digest) or dead."),
        _required("timestamp", Kind.TIMESTAMP, "When the message was decided."),
        _required("attempts", Kind.INTEGER, "How often a sender took the message."),
        _required("next_attempt", Kind.TIMESTAMP, "When a sender may take it again."),
        _required("held_because", Kind.STRING, "Why the message waits for the digest; empty if it is sent at once."),
        _required("recipients", Kind.STRING, "The recipients as a JSON list of addresses."),
        _required("subject", Kind.STRING, "The subject."),
        _required("reasons", Kind.STRING, "The sentences of the message as a JSON list of texts."),
        _required("document", Kind.STRING, "The path of the whole message; empty if `content` holds it."),
        _required("content", Kind.STRING, "The whole message as JSON, if it could not be written into its folder."),
        _required("channels", Kind.STRING, "The result of the last attempt on each channel, as JSON."),
        _required("lease", Kind.STRING, "The sender that has the message now; empty if none has."),
        _required("lease_until", Kind.TIMESTAMP, "When that sender has certainly ended."),
    ),
    key=("message",),
    indexes=(("timestamp",), ("state", "next_attempt")),
    partition="timestamp",
    cluster=("state", "owner"),
)

SENDERS = Table(
    "senders",
    "One row for each sender of messages, with its last pass.",
    (
        _required("deployment", Kind.STRING, "The Airflow deployment."),
        _required("sender", Kind.STRING, "What sent: ml_messages, run, or command line."),
        _required("timestamp", Kind.TIMESTAMP, "When the pass ended."),
        _required("sent", Kind.INTEGER, "How many messages it sent."),
        _required("pending", Kind.INTEGER, "How many messages were still to be sent."),
        _required("detail", Kind.STRING, "What went wrong; empty if nothing did."),
    ),
    key=("deployment", "sender"),
)

QUARANTINES = Table(
    "quarantines",
    "Quarantines of tests. Rows are only added; the newest row of a test applies.",
    (
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "When the row was written."),
        _required("until", Kind.TIMESTAMP, "The end of the quarantine; a time in the past lifts an earlier one."),
        _required("reason", Kind.STRING, "The reason."),
        _required("said_by", Kind.STRING, "The user."),
        DEPLOYMENT,
    ),
    key=("test_name", "timestamp"),
)

CURVE_HISTORY = Table(
    "curve_history",
    "One row for each tag of each run that a condition with `curve` judges: its values over the steps, down-sampled.",
    (
        _required("uuid", Kind.STRING, "The run key."),
        _required("tag", Kind.STRING, "The tag; its metric is named <tag>_curve."),
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "When the workload stopped."),
        _required("curve", Kind.STRING, "The steps and the values, with the steps that are not finite, as JSON."),
        Column("band", Kind.STRING, "The steps and bounds of the envelope that it was judged by, as JSON."),
        DEPLOYMENT,
    ),
    key=("uuid", "tag"),
    partition="timestamp",
    cluster=("test_name", "tag"),
)

CURVE_POINTS = Table(
    "curve_points",
    "One row for each point of each curve of a run over a load, a size or another setting.",
    (
        _required("uuid", Kind.STRING, "The run key."),
        _required("curve", Kind.STRING, "The curve; if it is judged, its metric is named curve/<curve>."),
        _required("place", Kind.INTEGER, "The place of the point in the curve, from 0, in the order of x."),
        _required("test_name", Kind.STRING, "The test."),
        _required("timestamp", Kind.TIMESTAMP, "When the workload stopped."),
        _required("x_name", Kind.STRING, "What was varied, for example request_rate."),
        _required("x", Kind.FLOAT, "Its value at the point."),
        Column("y", Kind.FLOAT, "The value; null if there is no finite number."),
        Column("x_unit", Kind.STRING, "The unit of x."),
        Column("unit", Kind.STRING, "The unit of y."),
        Column("better", Kind.STRING, "higher, lower; empty if it is unknown."),
        Column("samples", Kind.INTEGER, "Of how many measurements, such as requests, the value is made, if known."),
        Column("spread", Kind.FLOAT, "Their standard deviation, as the program stated it."),
        Column("mark", Kind.STRING, "saturated or failed; null otherwise."),
        DEPLOYMENT,
    ),
    key=("uuid", "curve", "place"),
    indexes=(("test_name", "curve", "timestamp"),),
    partition="timestamp",
    cluster=("test_name", "curve"),
)

KNOWN_TESTS = Table(
    "known_tests",
    "What a deployment knows about its tests, so that one that breaks or vanishes is noticed.",
    (
        _required("deployment", Kind.STRING, "The Airflow installation."),
        _required("part", Kind.STRING, "watched: every test; or a test that is written in Python, as it last ran."),
        _required("version", Kind.INTEGER, "How often the row was written."),
        _required("timestamp", Kind.TIMESTAMP, "When the row was written."),
        _required(
            "document",
            Kind.STRING,
            "The tests as JSON: owner, file, schedule, problems; of thousands of tests with zlib, in base64.",
        ),
    ),
    key=("deployment", "part"),
)

RUN_TABLES = (JOB_HISTORY, METRIC_HISTORY, METADATA_HISTORY, CURVE_HISTORY, CURVE_POINTS)
"""The tables that one load changes together."""

TABLES = (*RUN_TABLES, ACCEPTANCES, ALERTS, MESSAGES, SENDERS, QUARANTINES, KNOWN_TESTS)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the tables."""

    about: str
    tables: tuple[str, ...] = ()
    """New tables, each with all columns that no later version added."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """New columns of tables that were there."""


log = logger_of(__name__)

_OF_DEPLOYMENTS = ("job_history", "metric_history", "curve_history", "acceptances", "alerts", "quarantines")
_OF_JOBS = ("dag_id", "run_id", "owner", "started_at", "ended_at", "queued_seconds", "failure_reason", "image")

VERSIONS = (
    Version("the older system", ("job_history", "metric_history")),
    Version(
        "verdicts, metadata, acceptances and alerts",
        ("metadata_history", "acceptances", "alerts"),
        {
            "job_history": (*_OF_JOBS, "goodput", "verdict", "loaded_at"),
            "metric_history": ("verdict", "rule", "baseline_points", "step"),
        },
    ),
    Version("acknowledged incidents", columns={"alerts": ("said_by", "note")}),
    Version("quarantines", ("quarantines",)),
    Version("the level and the noise of a baseline", columns={"metric_history": ("reference", "spread")}),
    Version("units and directions", columns={"metric_history": ("unit", "better", "non_finite")}),
    Version("the condition of a verdict", columns={"metric_history": ("condition",)}),
    Version("curves", ("curve_history",)),
    Version("warnings", columns={"metric_history": ("severity",)}),
    Version("the envelopes of curves", columns={"curve_history": ("band",)}),
    Version("messages and their senders", ("messages", "senders")),
    Version("trials", columns={"job_history": ("trial", "started_by"), "metric_history": ("trial",)}),
    Version("known tests", ("known_tests",)),
    Version("deployments that share a warehouse", columns=dict.fromkeys(_OF_DEPLOYMENTS, ("deployment",))),
    Version("the causes of incidents", columns={"alerts": ("cause",)}),
    Version("the time of metadata, so that little of it is read", columns={"metadata_history": ("timestamp",)}),
    Version("what incidents cost", columns={"alerts": ("cost",)}),
    Version("curves over a load, a size or another setting", ("curve_points",)),
)
"""All versions, from 1. A column that is added needs a new one at the end."""

SCHEMA_VERSION = len(VERSIONS)


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column of a table in a database."""

    type: str
    """As messages name it."""
    kinds: Collection[str]
    """What of our types it can hold."""
    is_nullable: bool
    has_default: bool


def check(
    table: Table, name: str, existing: Mapping[str, ExistingColumn], home: str, wanted: Callable[[Kind], str] = str
) -> None:
    """Raise WarehouseError if a table is something else, which a `home`, such as a dataset, has under a name."""
    for column in table.columns:
        found = existing.get(column.name)
        if found is None and column.required:
            raise WarehouseError(
                f"table {name} has no column {column.name}, so it belongs to another system. Give another {home}, or "
                "rename the table; `ml-metrics import` reads tables of another shape."
            )
        if found is not None and not {column.kind, *column.also}.intersection(found.kinds):
            raise WarehouseError(
                f"table {name}, column {column.name}: is of type {found.type} and should be {wanted(column.kind)}. "
                f"Nothing was written; change the column or give another {home}."
            )
    for other, found in existing.items():
        if other not in table.names and not (found.is_nullable or found.has_default):
            raise WarehouseError(
                f"table {name}, column {other}: must have a value, and ML Metrics (schema {SCHEMA_VERSION}) does not "
                "know it. Nothing was written; upgrade ML Metrics if a newer version added the column, or let it be "
                "null."
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """What bringing a database to this version changes."""

    version: int
    """The version of its tables; 0 if there are none."""
    changes: tuple[str, ...]
    """The changes, in words."""

    @property
    def is_newer(self) -> bool:
        return self.version > SCHEMA_VERSION


def warn_if_newer(address: str, marked: int) -> None:
    if marked > SCHEMA_VERSION:
        log.warning(
            "%s: the tables are of schema %d, and this version of ML Metrics knows %d: newer columns are left empty",
            address,
            marked,
            SCHEMA_VERSION,
        )


def columns_of(number: int) -> dict[str, tuple[Column, ...]]:
    tables = {name for version in VERSIONS[:number] for name in version.tables}
    later = {(name, each) for version in VERSIONS[number:] for name, added in version.columns.items() for each in added}
    return {
        table.name: tuple(column for column in table.columns if (table.name, column.name) not in later)
        for table in TABLES
        if table.name in tables
    }


def version_of(present: Mapping[str, Collection[str]], marked: int = 0) -> int:
    """Return the version of tables: the newest whose columns are all there, or the newer one that is marked."""
    found = 0
    for number in range(1, SCHEMA_VERSION + 1):
        wanted = columns_of(number)
        if all({column.name for column in columns} <= set(present.get(name, ())) for name, columns in wanted.items()):
            found = number
    return max(found, marked) if marked > SCHEMA_VERSION else found
