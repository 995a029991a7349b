"""Makes the dashboards in this folder: the same panels for PostgreSQL and for BigQuery.

`python deploy/grafana/make.py` writes them. `docs/monitoring.md` describes how Grafana loads them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCHEMA_VERSION = 39
"""That of dashboards in Grafana 11. Later versions convert them when they load them."""
WIDTH = 24
BAD, WARNING, GOOD = "dark-red", "dark-yellow", "dark-green"
COLOURS = {"fail": BAD, "failure": BAD, "timeout": BAD, "missed": BAD, "warn": WARNING, "pass": GOOD}

STATUS = "CASE WHEN job_status <> 'success' THEN job_status WHEN verdict IS NULL THEN 'recorded' ELSE verdict END"
RANK = "CASE WHEN job_status <> 'success' OR verdict = 'fail' THEN 0 WHEN verdict = 'warn' THEN 1 ELSE 2 END"
REGULAR = "$__timeFilter(timestamp) AND trial IS NULL AND {deployment}"
NEWEST = f"""(
  SELECT test_name, owner, job_status, verdict, failure_reason, goodput, timestamp,
    ROW_NUMBER() OVER (PARTITION BY test_name ORDER BY timestamp DESC, uuid) AS place
  FROM {{job_history}} WHERE {REGULAR}
) AS newest
WHERE place = 1"""
OF_TEST = f"{REGULAR} AND test_name = {{test}}"
COST = """{{job_history}} AS job
JOIN {{metric_history}} AS price
  ON price.uuid = job.uuid AND $__timeFilter(price.timestamp) AND price.metric_name {metric}
WHERE $__timeFilter(job.timestamp) AND (job.deployment = {{name}} OR job.deployment IS NULL)"""
PRICE = COST.format(metric="= {currency}")

TESTS = f"""SELECT test_name AS test, owner, {STATUS} AS status, failure_reason AS reason, goodput, timestamp AS ended
FROM {NEWEST}
ORDER BY {RANK}, timestamp DESC"""
COUNTS = f"""SELECT COUNT(CASE WHEN {RANK} = 0 THEN 1 END) AS failing, COUNT(*) AS tests
FROM {NEWEST}"""
RUNS_BY_STATUS = f"""SELECT {{day}} AS time, {STATUS} AS metric, COUNT(*) AS runs
FROM {{job_history}} WHERE {REGULAR}
GROUP BY 1, 2
ORDER BY 1, 2"""
INCIDENTS = """SELECT message.test_name AS test, MIN(message.timestamp) AS since,
  MAX(CASE WHEN message.kind = 'acknowledged' THEN message.said_by END) AS acknowledged_by,
  MAX(CASE WHEN message.kind = 'assigned' THEN message.note END) AS assigned_to, MAX(message.cause) AS cause
FROM {alerts} AS message
WHERE (message.deployment = {name} OR message.deployment IS NULL) AND NOT EXISTS (
  SELECT 1 FROM {alerts} AS ended
  WHERE ended.test_name = message.test_name AND ended.opened_by = message.opened_by AND ended.kind = 'closed'
)
GROUP BY message.test_name, message.opened_by
ORDER BY since"""
PRECISION = """SELECT COUNT(CASE WHEN said.kind = 'regression' THEN 1 END) AS regressions,
  COUNT(CASE WHEN said.kind = 'no_regression' THEN 1 END) AS false_alarms,
  COUNT(CASE WHEN said.kind IS NULL THEN 1 END) AS not_assessed
FROM (
  SELECT test_name, opened_by FROM {alerts}
  WHERE kind = 'opened' AND $__timeFilter(timestamp) AND {deployment} AND test_name NOT LIKE 'definition:%'
) AS opened
LEFT JOIN (
  SELECT test_name, opened_by, kind,
    ROW_NUMBER() OVER (PARTITION BY test_name, opened_by ORDER BY timestamp DESC, kind DESC) AS place
  FROM {alerts} WHERE kind IN ('regression', 'no_regression') AND {deployment}
) AS said ON said.test_name = opened.test_name AND said.opened_by = opened.opened_by AND said.place = 1"""
VALUES = f"""SELECT timestamp AS time, metric_value AS value, metric_lower_bound AS lower_bound,
  metric_upper_bound AS upper_bound
FROM {{metric_history}} WHERE {OF_TEST} AND metric_name = {{metric}}
ORDER BY time"""
GOODPUT = f"""SELECT timestamp AS time, goodput FROM {{job_history}}
WHERE {OF_TEST} AND goodput IS NOT NULL
ORDER BY time"""
DURATION = f"""SELECT timestamp AS time, job_duration_sec AS duration, queued_seconds AS queued FROM {{job_history}}
WHERE {OF_TEST}
ORDER BY time"""
RUNS = f"""SELECT timestamp AS ended, {STATUS} AS status, failure_reason AS reason, job_duration_sec AS duration,
  num_failures AS failed_attempts, image, run_id AS run
FROM {{job_history}} WHERE {OF_TEST}
ORDER BY timestamp DESC"""
COST_OF_DAYS = f"""SELECT {{day_of_job}} AS time, COALESCE(job.owner, '') AS metric, SUM(price.metric_value) AS cost
FROM {PRICE}
GROUP BY 1, 2
ORDER BY 1, 2"""
COST_OF_TESTS = f"""SELECT job.test_name AS test, MAX(job.owner) AS owner, COUNT(*) AS runs,
  SUM(price.metric_value) AS cost,
  SUM(CASE WHEN job.job_status <> 'success' THEN price.metric_value ELSE 0 END) AS cost_of_failed_runs
FROM {PRICE}
GROUP BY job.test_name
ORDER BY cost DESC"""
CHIP_HOURS = f"""SELECT {{day_of_job}} AS time, SUM(price.metric_value) AS chip_hours
FROM {COST.format(metric="= 'chip_hours'")}
GROUP BY 1
ORDER BY 1"""
TOTAL = f"""SELECT SUM(price.metric_value) AS cost,
  SUM(CASE WHEN job.job_status <> 'success' THEN price.metric_value ELSE 0 END) AS cost_of_failed_runs
FROM {PRICE}"""
DEPLOYMENTS = """SELECT DISTINCT deployment FROM {job_history}
WHERE $__timeFilter(timestamp) AND deployment IS NOT NULL
ORDER BY deployment"""
NAMES = f"SELECT DISTINCT test_name FROM {{job_history}} WHERE {REGULAR} ORDER BY test_name"
METRICS = f"SELECT DISTINCT metric_name FROM {{metric_history}} WHERE {OF_TEST} ORDER BY metric_name"
CURRENCIES = """SELECT DISTINCT metric_name FROM {metric_history}
WHERE $__timeFilter(timestamp) AND {deployment} AND {is_currency}
ORDER BY metric_name"""


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of data source: how its plugin names it, and what differs in its SQL."""

    name: str
    plugin: str
    formats: dict[str, Any]
    """What its plugin calls rows that become a table, and rows that become lines."""
    quoted: str
    """How a variable becomes a text in SQL, whatever is in it."""
    table: str
    day: str
    is_currency: str

    def sql(self, text: str) -> str:
        """Return a statement in this dialect."""
        names = {name: self.quoted.format(name) for name in ("test", "metric", "currency")}
        tables = {name: self.table.format(name) for name in ("job_history", "metric_history", "alerts")}
        deployment = self.quoted.format("deployment")
        return text.format(
            **names,
            **tables,
            name=deployment,
            deployment=f"(deployment = {deployment} OR deployment IS NULL)",
            day=self.day.format("timestamp"),
            day_of_job=self.day.format("job.timestamp"),
            is_currency=self.is_currency,
        )

    def target(self, text: str, style: str) -> dict[str, Any]:
        """Return a query of a panel or of a variable."""
        query = {"refId": "A", "rawSql": self.sql(text), "rawQuery": True, "editorMode": "code"}
        return {"datasource": self.reference, **query, "format": self.formats[style]}

    @property
    def reference(self) -> dict[str, str]:
        """The data source that the user chooses on the dashboard."""
        return {"type": self.plugin, "uid": "${source}"}


POSTGRESQL = Source(
    "postgresql",
    "grafana-postgresql-datasource",
    {"table": "table", "lines": "time_series"},
    "${{{}:sqlstring}}",
    "{}",
    "DATE_TRUNC('day', {}, 'UTC')",
    "metric_name ~ '^cost_[a-z]{3}$'",
)
BIGQUERY = Source(
    "bigquery",
    "grafana-bigquery-datasource",
    {"table": 1, "lines": 0},
    "${{{}:singlequote}}",
    "`${{dataset}}.{}`",
    "TIMESTAMP_TRUNC({}, DAY)",
    "REGEXP_CONTAINS(metric_name, '^cost_[a-z]{3}$')",
)
SOURCES = (POSTGRESQL, BIGQUERY)


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what it shows, how, and how large it is."""

    title: str
    kind: str
    query: str
    width: int = WIDTH
    height: int = 8
    unit: str = ""
    repeat: str = ""
    """The variable for each of whose values there is such a panel."""
    links: str = ""
    """The dashboard that a test in the table leads to."""

    def document(self, number: int, source: Source, at: tuple[int, int]) -> dict[str, Any]:
        """Return the panel as Grafana stores it."""
        style = "lines" if self.kind == "timeseries" else "table"
        defaults = {"unit": self.unit} if self.unit else {}
        repeat = {"repeat": self.repeat, "repeatDirection": "v"} if self.repeat else {}
        return {
            "id": number,
            "title": self.title,
            "type": self.kind,
            "datasource": source.reference,
            "gridPos": {"x": at[0], "y": at[1], "w": self.width, "h": self.height},
            "targets": [source.target(self.query, style)],
            "fieldConfig": {"defaults": defaults, "overrides": self._overrides(source)},
            "options": self._options(),
            **repeat,
        }

    def _options(self) -> dict[str, Any]:
        if self.kind == "stat":  # one number for each column
            return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "/.*/", "values": False}}
        return {"tooltip": {"mode": "multi", "sort": "none"}} if self.kind == "timeseries" else {"showHeader": True}

    def _overrides(self, source: Source) -> list[dict[str, Any]]:
        if self.kind == "table":
            mappings = {value: {"color": colour, "index": at} for at, (value, colour) in enumerate(COLOURS.items())}
            coloured = [
                {"id": "mappings", "value": [{"type": "value", "options": mappings}]},
                {"id": "custom.cellOptions", "value": {"type": "color-background"}},
            ]
            found = [_override("status", coloured), _override("goodput", [{"id": "unit", "value": "percent"}])]
            found.append(_override("duration", [{"id": "unit", "value": "s"}]))
            if self.links:
                address = f"/d/{uid(self.links, source)}?${{source:queryparam}}&${{deployment:queryparam}}"
                target = f"{address}&var-test=${{__value.raw:percentencode}}&${{__url_time_range}}"
                found.append(_override("test", [{"id": "links", "value": [{"title": "the test", "url": target}]}]))
            return found
        if self.query == VALUES:
            dashed = [
                {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [6, 6]}},
                {"id": "color", "value": {"mode": "fixed", "fixedColor": "text"}},
            ]
            return [_override(name, dashed) for name in ("lower_bound", "upper_bound")]
        return []


def _override(field: str, properties: list[dict[str, Any]]) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": field}, "properties": properties}


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard: its variables, in the order in which they depend on each other, and its panels."""

    name: str
    title: str
    variables: dict[str, str]
    panels: tuple[Panel, ...]

    def document(self, source: Source) -> dict[str, Any]:
        """Return the dashboard as Grafana stores it."""
        return {
            "uid": uid(self.name, source),
            "title": f"ML Metrics: {self.title}",
            "tags": ["ml-metrics"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "timezone": "utc",
            "time": {"from": "now-30d", "to": "now"},
            "refresh": "",
            "templating": {"list": list(self._variables(source))},
            "links": [{"type": "dashboards", "title": "ML Metrics", "tags": ["ml-metrics"], "keepTime": True}],
            "annotations": {"list": []},
            "panels": list(self._panels(source)),
        }

    def _variables(self, source: Source) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"name": "source", "label": "data source", "type": "datasource", "query": source.plugin, "refresh": 1}
        ]
        if "{dataset}" in source.table.format(""):
            text = "metrics_handler_dataset"
            current = {"text": text, "value": text}
            found.append({"name": "dataset", "type": "textbox", "query": text, "current": current})
        for name, query in {"deployment": DEPLOYMENTS, **self.variables}.items():
            several = name == "metric"
            found.append(
                {
                    "name": name,
                    "type": "query",
                    "datasource": source.reference,
                    "query": source.sql(query) if source is POSTGRESQL else source.target(query, "table"),
                    "refresh": 2,  # also when the time changes
                    "multi": several,
                    "includeAll": False,
                }
            )
        return found

    def _panels(self, source: Source) -> list[dict[str, Any]]:
        found, x, y, below = [], 0, 0, 0
        for number, panel in enumerate(self.panels, 1):
            if x + panel.width > WIDTH:
                x, y = 0, below
            found.append(panel.document(number, source, (x, y)))
            x, below = x + panel.width, max(below, y + panel.height)
        return found


DASHBOARDS = (
    Dashboard(
        "overview",
        "all tests",
        {},
        (
            Panel("Newest run of each test", "stat", COUNTS, 8, 4),
            Panel("What alerts were", "stat", PRECISION, 16, 4),
            Panel("Tests, failing first", "table", TESTS, 24, 12, links="one-test"),
            Panel("Open incidents", "table", INCIDENTS, 12, 9, links="one-test"),
            Panel("Runs by status", "timeseries", RUNS_BY_STATUS, 12, 9),
        ),
    ),
    Dashboard(
        "one-test",
        "one test",
        {"test": NAMES, "metric": METRICS},
        (
            Panel("${metric}", "timeseries", VALUES, 24, 9, repeat="metric"),
            Panel("Goodput", "timeseries", GOODPUT, 12, 8, unit="percent"),
            Panel("Duration", "timeseries", DURATION, 12, 8, unit="s"),
            Panel("Runs", "table", RUNS, 24, 10),
        ),
    ),
    Dashboard(
        "cost",
        "cost",
        {"currency": CURRENCIES},
        (
            Panel("Cost", "stat", TOTAL, 24, 4),
            Panel("Cost by owner", "timeseries", COST_OF_DAYS, 12, 9),
            Panel("Chip-hours", "timeseries", CHIP_HOURS, 12, 9),
            Panel("Cost by test", "table", COST_OF_TESTS, 24, 10, links="one-test"),
        ),
    ),
)


def uid(name: str, source: Source) -> str:
    """Return the id of a dashboard in Grafana, by which others link to it."""
    return f"ml-metrics-{name}-{source.name}"


def files() -> dict[Path, str]:
    """Return the content of each file."""
    return {
        FOLDER / source.name / f"{one.name}.json": json.dumps(one.document(source), indent=2) + "\n"
        for source in SOURCES
        for one in DASHBOARDS
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
