"""The definitions of the tables. Every engine creates, checks and extends its tables from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.model import BROKEN
from ml_metrics.core.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


log = logger_of(__name__)

PARAMETER = re.compile(r":([a-z_]+)")
"""A parameter of a statement."""

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
    required: bool
    also: tuple[Kind, ...]
    """Other types that the column may have in an existing table, created by a version of the older system."""
    since: int
    """The version of the tables that added it."""


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


def _table(name: str, about: str, columns: str, **options: Any) -> Table:
    """Each line is a column: name, type, version that added it, description; `!` after the type means required."""
    lines = re.sub(r"\n {8,}", " ", columns).strip().splitlines()
    return Table(name, about, tuple(_column(*line.split(maxsplit=3)) for line in lines), **options)


def _column(name: str, kinds: str, since: str, about: str) -> Column:
    kind, *also = map(Kind, kinds.rstrip("!").split("|"))
    return Column(name, kind, about, kinds.endswith("!"), tuple(also), int(since))


JOB_HISTORY = _table(
    "job_history",
    "One row for each run of each test.",
    """
    uuid                     STRING!     1 The run key: the same for every retry, clear and backfill.
    test_name                STRING!     1 The test.
    test_type                STRING!     1 For example func or conv.
    accelerator              STRING!     1 For example v5litepod-16, h100x8 or cpu.
    framework_version        STRING!     1 For example tf-nightly.
    job_status               STRING!     1 success, failure, timeout or missed.
    num_failures             INTEGER!    1 The number of failed attempts of the workload.
    job_duration_sec         INTEGER!    1 Seconds from the start of the container to its end.
    timestamp                TIMESTAMP!  1 When the workload stopped.
    stackdriver_logs_link    STRING!     1 The page of its logs in the console.
    msg_publish_time         INTEGER|STRING  1 Only in rows of the older system.
    logs_download_command    STRING      1 A command that downloads the logs as text.
    kubernetes_workload_link STRING      1 The workload's page in the console.
    dag_id                   STRING      2 The DAG in Airflow.
    run_id                   STRING      2 The run in Airflow.
    owner                    STRING      2 The owner of the test.
    started_at               TIMESTAMP   2 When the container started.
    ended_at                 TIMESTAMP   2 When the container ended.
    queued_seconds           FLOAT       2 Seconds from the creation of the pod to the start of its container.
    failure_reason           STRING      2 For example OOMKilled, ImagePullBackOff or ExitCode:3.
    image                    STRING      2 The image of the workload.
    goodput                  FLOAT       2 Productive time as a percentage of the total time.
    verdict                  STRING      2 pass, fail, warn (only warnings), insufficient_data, skipped; recorded: no
        conditions.
    loaded_at                TIMESTAMP   2 When this row was written.
    trial                    STRING     12 What was changed in a trial, for example image, size; null for a regular run.
    started_by               STRING     12 The user who started the run by hand; otherwise null.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("uuid",),
    indexes=(("test_name", "timestamp"),),
    page_indexes=(
        # `trial` is among the columns because SQLite reads it although the condition of the index implies it
        PageIndex(
            "job_history_by_time",
            (
                *("timestamp", "test_name", "dag_id", "job_status", "verdict", "failure_reason", "goodput"),
                *("deployment", "trial"),
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

METRIC_HISTORY = _table(
    "metric_history",
    "One row for each metric of each run.",
    """
    uuid                     STRING!     1 The run key.
    test_name                STRING!     1 The test.
    timestamp                TIMESTAMP!  1 The wall time of the point; for computed metrics, the end of the run.
    metric_name              STRING!     1 The metric: <tag>_<strategy>, or the name of a computed metric.
    metric_value             FLOAT       1 The value; null if the run produced no finite number.
    metric_lower_bound       FLOAT       1 Null if there is no lower bound.
    metric_upper_bound       FLOAT       1 Null if there is no upper bound.
    verdict                  STRING      2 pass, fail, insufficient_data, missing, non_finite or skipped; null without
        a rule.
    rule                     STRING      2 The condition as text.
    baseline_points          INTEGER     2 The number of earlier runs that the bounds were computed from.
    step                     INTEGER     2 The step of the point.
    reference                FLOAT       5 The level of the baseline that the bounds were computed from.
    spread                   FLOAT       5 The spread of the baseline that the bounds were computed from.
    condition                STRING      7 The pattern of the condition, or default; empty if it names the metric.
    unit                     STRING      6 The unit of the value, for example s, B or tokens/s.
    better                   STRING      6 higher, lower or neither; null if it is unknown.
    non_finite               FLOAT       6 The share of the points of the run that were not finite numbers.
    severity                 STRING      9 warn if the condition only warns; otherwise null.
    trial                    STRING     12 As in job_history.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("uuid", "metric_name"),
    indexes=(("test_name", "metric_name", "timestamp"),),
    page_indexes=(PageIndex("metric_history_broken", ("timestamp",), VERDICT_IS_BROKEN),),
    partition="timestamp",
    cluster=("test_name", "metric_name"),
)

METADATA_HISTORY = _table(
    "metadata_history",
    "The metadata of runs: image digest, parameters, text summaries.",
    """
    uuid                     STRING!     2 The run key.
    metadata_key             STRING!     2 The name of the text.
    metadata_value           STRING      2 The text.
    timestamp                TIMESTAMP  16 When the workload stopped; null in rows of older versions.
    """,
    key=("uuid", "metadata_key"),
    partition="timestamp",
    cluster=("uuid",),
)

CURVE_HISTORY = _table(
    "curve_history",
    "One row for each tag of each run that a condition with `curve` judges: its values over the steps, down-sampled.",
    """
    uuid                     STRING!     8 The run key.
    tag                      STRING!     8 The tag; its metric is named <tag>_curve.
    test_name                STRING!     8 The test.
    timestamp                TIMESTAMP!  8 When the workload stopped.
    curve                    STRING!     8 The steps and the values, with the steps that are not finite, as JSON.
    band                     STRING     10 The steps and bounds of the envelope that it was judged by, as JSON.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("uuid", "tag"),
    partition="timestamp",
    cluster=("test_name", "tag"),
)

CURVE_POINTS = _table(
    "curve_points",
    "One row for each point of each curve of a run over a load, a size or another setting.",
    """
    uuid                     STRING!    18 The run key.
    curve                    STRING!    18 The curve; if it is judged, its metric is named curve/<curve>.
    place                    INTEGER!   18 The place of the point in the curve, from 0, in the order of x.
    test_name                STRING!    18 The test.
    timestamp                TIMESTAMP! 18 When the workload stopped.
    x_name                   STRING!    18 What was varied, for example request_rate.
    x                        FLOAT!     18 Its value at the point.
    y                        FLOAT      18 The value; null if there is no finite number.
    x_unit                   STRING     18 The unit of x.
    unit                     STRING     18 The unit of y.
    better                   STRING     18 higher, lower; empty if it is unknown.
    samples                  INTEGER    18 Of how many measurements, such as requests, the value is made, if known.
    spread                   FLOAT      18 Their standard deviation, as the program stated it.
    mark                     STRING     18 saturated or failed; null otherwise.
    deployment               STRING     18 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("uuid", "curve", "place"),
    indexes=(("test_name", "curve", "timestamp"),),
    partition="timestamp",
    cluster=("test_name", "curve"),
)

ACCEPTANCES = _table(
    "acceptances",
    "Levels of metrics that a user accepted. The baseline restarts from that run.",
    """
    test_name                STRING!     2 The test.
    metric_name              STRING!     2 The metric.
    uuid                     STRING!     2 The first run of the new level.
    timestamp                TIMESTAMP!  2 When that run stopped.
    metric_value             FLOAT       2 The value of the metric in that run.
    accepted_at              TIMESTAMP!  2 When the level was accepted.
    accepted_by              STRING!     2 The user.
    reason                   STRING!     2 The reason.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("test_name", "metric_name", "uuid"),
)

ALERTS = _table(
    "alerts",
    "One row for each change of an incident, and for what a user said about it.",
    """
    test_name                STRING!     2 The test.
    opened_by                STRING!     2 The incident, identified by the key of the message that opened it.
    kind                     STRING!     2 opened, changed, acknowledged, assigned, regression, no_regression or closed.
    uuid                     STRING!     2 The key of the run that the alert was about.
    timestamp                TIMESTAMP!  2 When the message was decided.
    fingerprint              STRING!     2 What is broken, without the numbers.
    reasons                  STRING!     2 The reasons as a JSON list of texts.
    said_by                  STRING      3 Who acknowledged, assigned or assessed the incident.
    note                     STRING      3 The note of that user; of an assigned incident, the person.
    cause                    STRING     15 What explains the incident and may explain others; empty if unknown.
    cost                     STRING     17 What the regression costs a week, or `missing` with the reason; empty for
        none.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("test_name", "opened_by", "kind", "uuid"),
)

MESSAGES = _table(
    "messages",
    "One row for each message. It is added when the message is decided, before it is sent.",
    """
    message                  STRING!    11 The key of the message: the run key, a number, the occasion, and a hash.
    deployment               STRING!    11 The Airflow deployment.
    uuid                     STRING!    11 The run key; empty for a message that is not about one run.
    test_name                STRING!    11 The test; empty for a message about several tests.
    owner                    STRING!    11 The owner whose hourly limit the message counts towards.
    occasion                 STRING!    11 broken, worse, recovered, overdue, warning, digest, heartbeat, ...
    content_hash             STRING!    11 A hash of what the message states.
    state                    STRING!    11 pending, held (for the digest), sent, summarised (in a digest) or dead.
    timestamp                TIMESTAMP! 11 When the message was decided.
    attempts                 INTEGER!   11 How often a sender took the message.
    next_attempt             TIMESTAMP! 11 When a sender may take it again.
    held_because             STRING!    11 Why the message waits for the digest; empty if it is sent at once.
    recipients               STRING!    11 The recipients as a JSON list of addresses.
    subject                  STRING!    11 The subject.
    reasons                  STRING!    11 The sentences of the message as a JSON list of texts.
    document                 STRING!    11 The path of the whole message; empty if `content` holds it.
    content                  STRING!    11 The whole message as JSON, if it could not be written into its folder.
    channels                 STRING!    11 The result of the last attempt on each channel, as JSON.
    lease                    STRING!    11 The sender that has the message now; empty if none has.
    lease_until              TIMESTAMP! 11 When that sender has certainly ended.
    """,
    key=("message",),
    indexes=(("timestamp",), ("state", "next_attempt")),
    partition="timestamp",
    cluster=("state", "owner"),
)

SENDERS = _table(
    "senders",
    "One row for each sender of messages, with its last pass.",
    """
    deployment               STRING!    11 The Airflow deployment.
    sender                   STRING!    11 What sent: ml_messages, run, or command line.
    timestamp                TIMESTAMP! 11 When the pass ended.
    sent                     INTEGER!   11 How many messages it sent.
    pending                  INTEGER!   11 How many messages were still to be sent.
    detail                   STRING!    11 What went wrong; empty if nothing did.
    """,
    key=("deployment", "sender"),
)

QUARANTINES = _table(
    "quarantines",
    "Quarantines of tests. Rows are only added; the newest row of a test applies.",
    """
    test_name                STRING!     4 The test.
    timestamp                TIMESTAMP!  4 When the row was written.
    until                    TIMESTAMP!  4 The end of the quarantine; a time in the past lifts an earlier one.
    reason                   STRING!     4 The reason.
    said_by                  STRING!     4 The user.
    deployment               STRING     14 The deployment of Airflow; null in older rows, which belong to every one.
    """,
    key=("test_name", "timestamp"),
)

KNOWN_TESTS = _table(
    "known_tests",
    "What a deployment knows about its tests, so that one that breaks or vanishes is noticed.",
    """
    deployment               STRING!    13 The Airflow installation.
    part                     STRING!    13 watched: every test; or a test that is written in Python, as it last ran.
    version                  INTEGER!   13 How often the row was written.
    timestamp                TIMESTAMP! 13 When the row was written.
    document                 STRING!    13 The tests as JSON: owner, file, schedule, problems; of thousands of tests
        with zlib, in base64.
    """,
    key=("deployment", "part"),
)

RUN_TABLES = (JOB_HISTORY, METRIC_HISTORY, METADATA_HISTORY, CURVE_HISTORY, CURVE_POINTS)
"""The tables that one load changes together."""

TABLES = (*RUN_TABLES, ACCEPTANCES, ALERTS, MESSAGES, SENDERS, QUARANTINES, KNOWN_TESTS)

VERSIONS = (
    "the older system",
    "verdicts, metadata, acceptances and alerts",
    "acknowledged incidents",
    "quarantines",
    "the level and the noise of a baseline",
    "units and directions",
    "the condition of a verdict",
    "curves",
    "warnings",
    "the envelopes of curves",
    "messages and their senders",
    "trials",
    "known tests",
    "deployments that share a warehouse",
    "the causes of incidents",
    "the time of metadata, so that little of it is read",
    "what incidents cost",
    "curves over a load, a size or another setting",
)
"""What each version added, from 1. A column that is added needs a new one at the end."""

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
    """The tables of a version, with the columns that it knows."""
    found = {table.name: tuple(column for column in table.columns if column.since <= number) for table in TABLES}
    return {name: columns for name, columns in found.items() if columns}


def version_of(present: Mapping[str, Collection[str]], marked: int = 0) -> int:
    """The version of tables: the newest whose columns are all there, or the newer one that is marked."""
    found = 0
    for number in range(1, SCHEMA_VERSION + 1):
        wanted = columns_of(number)
        if all({column.name for column in columns} <= set(present.get(name, ())) for name, columns in wanted.items()):
            found = number
    return max(found, marked) if marked > SCHEMA_VERSION else found
