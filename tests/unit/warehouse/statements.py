"""Every statement that the warehouse sends to BigQuery, found in its modules, with the types of its parameters."""

from __future__ import annotations

import importlib
import pkgutil
import re

import ml_metrics.warehouse as package
from ml_metrics.warehouse import TABLES
from ml_metrics.warehouse.bigquery import EARLIER, LIST, PARAMETER, PARAMETER_TYPES, script
from ml_metrics.warehouse.old_rows import REMOVE
from ml_metrics.warehouse.tables import RUN_TABLES
from ml_metrics.warehouse.warehouse import CLAIM, CLAIMED_BY

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
OTHER_TABLES = {"imports.OLDER_METRICS", "imports.OLDER_METADATA"}
"""The module whose statements read the tables of another system."""
SCHEMA = {table.name: {column.name: str(column.kind) for column in table.columns} for table in TABLES}
REQUIRED = {table.name: {column.name for column in table.columns if column.required} for table in TABLES}

NUMBERS = {"attempts", "limit", "most", "page", "pending", "recent", "scanned", "sent", "skipped", "version", "window"}
TIMES = {"accepted_at", "at", "before", "earliest", "horizon", "latest", "lease_until", "newest_from", "newest_to"}
TIMES |= {"next_attempt", "now", "oldest", "other_from", "other_to", "scan_from", "scan_to", "since", "timestamp"}
TIMES |= {"until"}


def statements() -> dict[str, str]:
    """Return the statements by the module and the name of their constant, as they are sent."""
    found: dict[str, str] = {}
    for module in sorted(one.name for one in pkgutil.iter_modules(package.__path__)):
        constants = vars(importlib.import_module(f"{package.__name__}.{module}"))
        for name, value in constants.items():
            is_statement = name.isupper() and isinstance(value, str) and STATEMENT.match(value)
            if f"{module}.{name}" not in OTHER_TABLES and is_statement and value not in found.values():
                found[f"{module}.{name}"] = value
    for not_sent in ("warehouse.CLAIM", "metrics.METRICS", "runs._TESTS", "runs.TESTS_BY_INDEX"):
        del found[not_sent]
    claims = {f"warehouse.CLAIM {table}": CLAIM.format(table=table, key=key) for table, key in CLAIMED_BY.items()}
    removals = {f"old_rows.REMOVE {table}": text for table, text in REMOVE.items()}
    sent = {
        name: PARAMETER.sub(r"@\1", LIST.sub(r"IN UNNEST(@\1)", text))
        for name, text in (found | claims | removals).items()
    }
    return {**sent, "bigquery.EARLIER": EARLIER, "bigquery.script": script()}


def parameters_of(statement: str) -> dict[str, str]:
    """Return the types of a statement's parameters, by their names."""
    lists = set(re.findall(r"UNNEST\(@(\w+)\)", statement))
    return {name: _type(name, is_list=name in lists) for name in re.findall(r"@(\w+)", statement)}


def _type(name: str, *, is_list: bool) -> str:
    for table in RUN_TABLES:
        if table.name == name:
            return f"ARRAY<STRUCT<{', '.join(f'{one.name} {PARAMETER_TYPES[one.kind]}' for one in table.columns)}>>"
    kind = "INT64" if name in NUMBERS else "TIMESTAMP" if name in TIMES else "STRING"
    return f"ARRAY<{kind}>" if is_list else kind
