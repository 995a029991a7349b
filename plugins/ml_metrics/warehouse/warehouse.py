"""The warehouse: runs, metrics, incidents, messages and decisions over any engine, opened by its address."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.extras import require
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.warehouse.curves import StoredCurves
from ml_metrics.warehouse.database import Database
from ml_metrics.warehouse.decisions import Acceptances, Quarantines
from ml_metrics.warehouse.incidents import Incidents
from ml_metrics.warehouse.known_tests import KnownTests
from ml_metrics.warehouse.messages import Messages, Senders
from ml_metrics.warehouse.metrics import Costs, Metrics
from ml_metrics.warehouse.runs import RunAttributes, Runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy.engine import URL

    from ml_metrics.warehouse.bigquery_options import BigQueryOptions
    from ml_metrics.warehouse.database import Store
    from ml_metrics.warehouse.record import RunRecord
    from ml_metrics.warehouse.runs import Own
    from ml_metrics.warehouse.tables import Plan


PAGE_RUNS = 500

WITHOUT_DEPLOYMENT = """
SELECT uuid, test_name, dag_id, run_id FROM job_history
WHERE deployment IS NULL AND uuid > :after
ORDER BY uuid
LIMIT :page
"""

CLAIM = "UPDATE {table} SET deployment = :deployment WHERE deployment IS NULL AND {key} IN :runs"

CLAIMED_BY = {
    "metric_history": "uuid",
    "curve_history": "uuid",
    "curve_points": "uuid",
    "acceptances": "uuid",
    "alerts": "opened_by",
    "job_history": "uuid",
}
"""The run key in each table. The runs come last: a claim that was interrupted finds them again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """How many runs are now of this deployment, and how many are everybody's still: of others, or imported."""

    claimed: int
    left: int


DEFAULT_DEPLOYMENT = Settings().deployment
"""The deployment of an Airflow whose settings name none."""


class Warehouse(AbstractContextManager["Warehouse"]):
    """All stored runs of a deployment and what was decided about them.

    Made by `open_warehouse`; use it in a `with`, or close it. `load` writes a run. Everything else is in a part:
    `runs`, `metrics`, `costs`, `curves`, `incidents`, `messages`, `senders`, `acceptances`, `quarantines` and
    `known_tests`.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.runs = Runs(self.database)
        self.costs = Costs(self.database)
        self.metrics = Metrics(self.database)
        self.curves = StoredCurves(self.database)
        self.incidents = Incidents(self.database)
        self.messages = Messages(self.database)
        self.senders = Senders(self.database)
        self.acceptances = Acceptances(self.database)
        self.quarantines = Quarantines(self.database)
        self.known_tests = KnownTests(self.database)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def deployment(self) -> str:
        return self.database.deployment

    @property
    def address(self) -> str:
        """Without its password, for messages."""
        return self.database.store.address

    def attributes(
        self,
        tests: Sequence[str],
        ends: Mapping[str, datetime],
        own: Own | None = None,
        deployments: Sequence[str] = (),
    ) -> RunAttributes:
        """What is recorded about runs of some tests, which `ends` names with the times of their ends.

        `own` is the key of a run that may not be stored yet, and a function for its attributes.
        """
        return RunAttributes(self.database, tests, ends, own, deployments)

    def in_deployment(self, deployment: str) -> Warehouse:
        """The same warehouse as another deployment sees it. It is closed with this one."""
        return self if deployment == self.deployment else Warehouse(self.database.in_deployment(deployment))

    def close(self) -> None:
        self.database.store.close()

    def ensure_schema(self) -> None:
        """Create missing tables and extend older ones, without losing a row. The first query does this as well."""
        self.database.ensure_schema()

    def plan_schema(self) -> Plan:
        """The version of the tables, and what `ensure_schema` would change. Nothing is changed."""
        return self.database.store.plan()

    def claim_runs(self) -> Claim:
        """Give the runs of older versions that are provably of this deployment, with all decisions, to it alone."""
        claimed = left = 0
        after = ""
        while rows := self.database.query(WITHOUT_DEPLOYMENT, after=after, page=PAGE_RUNS):
            own = [row["uuid"] for row in rows if self._is_own(row)]
            for table, column in CLAIMED_BY.items() if own else ():
                self.database.change(CLAIM.format(table=table, key=column), runs=own)
            claimed, left = claimed + len(own), left + len(rows) - len(own)
            after = rows[-1]["uuid"]
        return Claim(claimed, left)

    def _is_own(self, row: dict[str, Any]) -> bool:
        known = row["dag_id"] and row["run_id"]
        return bool(known and Run(row["test_name"], row["dag_id"], row["run_id"], self.deployment).key == row["uuid"])

    def load(self, record: RunRecord) -> None:
        """Write a run into all tables or none, exactly once: rows of an earlier attempt are replaced."""
        self.load_all([record])

    def load_all(self, records: Sequence[RunRecord]) -> None:
        """Write some runs in one transaction. An import passes a few hundred at a time."""
        self.database.replace(records)


def sqlite_address(file: str | Path) -> URL:
    """The address of a SQLite file. In an address that is a text, `?`, `#` and `%` of a path would mean more."""
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=str(file))


def open_warehouse(
    address: str | URL,
    *,
    deployment: str = DEFAULT_DEPLOYMENT,
    create: bool = True,
    client: Any = None,
    options: BigQueryOptions | None = None,
) -> Warehouse:
    """Open the warehouse at an address: any URL of SQLAlchemy, also as text, or `bigquery://project/dataset`.

    Only the rows of one deployment of Airflow are read, and those of older versions, which have none.

    Nothing is sent to a server before the first query. What is missing is created on first use: the SQLite file with
    its folder, the dataset, the tables. Pass `create=False` wherever an empty warehouse is of no use, as in a command
    that only reads: then a missing file raises `WarehouseError` here, a missing dataset or a database without our
    tables raises it on first use, and nothing is created. The tables of an existing warehouse are brought up to date
    either way.

    `client` is a ready `google.cloud.bigquery.Client`; by default, the client has the credentials of the environment.
    `options` are those of BigQuery; by default, the settings'.
    """
    store = open_store(address, create=create, client=client, options=options, deployment=deployment)
    return Warehouse(Database(store, deployment))


def open_store(
    address: str | URL,
    *,
    create: bool,
    client: Any = None,
    options: BigQueryOptions | None = None,
    deployment: str = "",
) -> Store:
    """Open the engine alone, for reading tables that are not ours."""
    if not (isinstance(address, str) and address.startswith("bigquery://")):
        from ml_metrics.warehouse.sql import SqlStore

        return SqlStore(address, create=create)
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/")
    if not project or not dataset or "/" in dataset or parts.query or parts.fragment:
        raise WarehouseError(f"{address}: should be bigquery://project/dataset")
    require("google", address, "google.cloud.bigquery")
    from ml_metrics.warehouse.bigquery import BigQueryStore
    from ml_metrics.warehouse.bigquery_options import BigQueryOptions

    options = options or BigQueryOptions.of(Settings.load())
    return BigQueryStore(project, dataset, client, options, create=create, deployment=deployment)
