"""The dashboards for Grafana: they are complete, and a real PostgreSQL and BigQuery's stand-in run every statement."""

from __future__ import annotations

import json
import re
import runpy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.warehouse import Warehouse
from unit.warehouse.records import MONDAY, record, run_of

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
MADE = runpy.run_path(str(FOLDER / "make.py"))
FILES: dict[Path, str] = MADE["files"]()
DOCUMENTS = {f"{path.parent.name}/{path.stem}": json.loads(text) for path, text in FILES.items()}
VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}")
TIME_FILTER = re.compile(r"\$__timeFilter\(([\w.]+)\)")
FROM, TO = (f"{MONDAY + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}" for day in (-1, 9))
STEADY, BROKEN = "it's steady", "broken"
VALUES = {"deployment": "local", "test": STEADY, "metric": "accuracy_final", "currency": "cost_usd"}
QUOTED = {
    "sqlstring": lambda text: "'{}'".format(text.replace("'", "''")),
    "singlequote": lambda text: "'{}'".format(text.replace("'", "\\'")),
}
"""How Grafana puts the value of a variable into a text, by the format that follows the name."""


def statements(document: dict[str, Any]) -> dict[str, str]:
    """Return the statements of the panels and of the variables of a dashboard."""
    panels = {panel["title"]: panel["targets"][0]["rawSql"] for panel in document["panels"]}
    queries = {one["name"]: one["query"] for one in document["templating"]["list"] if one["type"] == "query"}
    return panels | {name: one if isinstance(one, str) else one["rawSql"] for name, one in queries.items()}


def run(warehouse: Warehouse, statement: str) -> list[dict[str, Any]]:
    """Run a statement as the plugin of Grafana does: with its macros and variables expanded."""
    store = warehouse.database.store
    name = store.address.rpartition("/")[2]
    between = rf"\1 >= '{FROM}' AND \1 <= '{TO}'"
    text = VARIABLE.sub(
        lambda found: QUOTED[found[2]](VALUES[found[1]]) if found[2] else {"dataset": name}[found[1]],
        TIME_FILTER.sub(between, statement),
    )
    assert "$__" not in text
    if store.address.startswith("bigquery"):
        return [dict(row.items()) for row in store.client.query(text, location=store.location).result()]
    return store.rows(text, {})


@pytest.fixture
def filled(warehouse: Warehouse) -> Warehouse:
    costs = {"cost_usd": 2.5, "cost_stall_usd": 1.0, "chip_hours": 4.0}
    passed = {"accuracy_final": Outcome.PASS}
    runs = [
        record(day, {"accuracy_final": 0.9 + day / 100, **costs}, test=STEADY, outcomes=passed) for day in (0, 1, 2)
    ]
    failed = record(1, {"cost_usd": 1.0}, test=BROKEN, status=JobStatus.FAILURE)
    trial = record(3, test=STEADY, outcomes={"accuracy_final": Outcome.FAIL}, trial=("image",))
    warehouse.load_all([*runs, failed, trial])
    for test in (BROKEN, STEADY, "definition:gone"):
        warehouse.incidents.report(test, run_of(1, test).key, fingerprint="f", reasons=["job_status:"], at=MONDAY)
    warehouse.incidents.assign(BROKEN, "otto", by="vera")
    warehouse.incidents.assess(STEADY, run_of(1, STEADY).key, is_regression=True, by="vera")
    warehouse.incidents.assess(STEADY, run_of(1, STEADY).key, is_regression=False, by="vera", note="noise")
    warehouse.incidents.close(STEADY, "later")
    return warehouse


def test_the_files_are_those_that_the_script_makes() -> None:
    assert {path: path.read_text() if path.exists() else "" for path in FILES} == FILES, "python deploy/grafana/make.py"
    assert set(FOLDER.rglob("*.json")) == set(FILES)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_dashboard_has_what_grafana_needs(name: str) -> None:
    document = DOCUMENTS[name]
    uids = [one["uid"] for one in DOCUMENTS.values()]
    assert len(set(uids)) == len(uids)
    assert max(map(len, uids)) <= 40
    panels, variables = document["panels"], document["templating"]["list"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = {
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    }
    assert len(cells) == sum(at["w"] * at["h"] for at in places), "panels do not overlap"
    assert {x for x, _ in cells} <= set(range(24))
    # a variable is there before what uses it, and every data source is the one that the user chose
    known: set[str] = set()
    for variable in variables:
        assert {used for used, _ in VARIABLE.findall(json.dumps(variable))} <= known
        known.add(variable["name"])
    everywhere = set(VARIABLE.findall(json.dumps(panels)))
    assert {used for used, _ in everywhere if not used.startswith("__")} <= known
    plugin = next(one["query"] for one in variables if one["type"] == "datasource")
    assert {json.dumps(panel["datasource"]) for panel in panels} == {json.dumps({"type": plugin, "uid": "${source}"})}
    assert set(re.findall(r"/d/([\w-]+)", json.dumps(panels))) <= set(uids)


@pytest.mark.parametrize("engine", ["postgresql", "bigquery"], indirect=True)
def test_every_statement_runs_and_answers(engine: str, filled: Warehouse) -> None:
    found = {
        title: run(filled, statement)
        for name, document in DOCUMENTS.items()
        if name.startswith(f"{engine}/")
        for title, statement in statements(document).items()
    }
    assert [(row["test"], row["status"]) for row in found["Tests, failing first"]] == [
        (BROKEN, "failure"),
        (STEADY, "pass"),
    ]
    assert found["Newest run of each test"] == [{"failing": 1, "tests": 2}]
    assert found["What alerts were"] == [{"regressions": 0, "false_alarms": 1, "not_assessed": 1}]
    incidents = {row["test"]: (row["since"], row["assigned_to"]) for row in found["Open incidents"]}
    assert incidents == {BROKEN: (MONDAY, "otto"), "definition:gone": (MONDAY, None)}
    days = [(row["time"], row["metric"], row["runs"]) for row in found["Runs by status"]]
    night = MONDAY.replace(hour=0)
    assert days[:3] == [
        (night, "pass", 1),
        (night + timedelta(days=1), "failure", 1),
        (night + timedelta(days=1), "pass", 1),
    ]
    assert [row["value"] for row in found["${metric}"]] == pytest.approx([0.9, 0.91, 0.92])
    assert {row["lower_bound"] for row in found["${metric}"]} == {0.5}
    assert [row["duration"] for row in found["Duration"]] == [300] * 3
    assert [row["status"] for row in found["Runs"]] == ["pass"] * 3
    assert found["Goodput"] == []
    costs = {row["test"]: (row["runs"], row["cost"], row["cost_of_failed_runs"]) for row in found["Cost by test"]}
    assert costs == {STEADY: (3, 7.5, 0.0), BROKEN: (1, 1.0, 1.0)}
    assert found["Cost"] == [{"cost": 8.5, "cost_of_failed_runs": 1.0}]
    assert [row["chip_hours"] for row in found["Chip-hours"]] == [4.0] * 3
    assert [row["cost"] for row in found["Cost by owner"]] == [2.5, 3.5, 2.5]
    assert [row["metric_name"] for row in found["currency"]] == ["cost_usd"]
    assert [row["deployment"] for row in found["deployment"]] == ["local"]
    assert [row["test_name"] for row in found["test"]] == [BROKEN, STEADY]
    assert [row["metric_name"] for row in found["metric"]] == [
        "accuracy_final",
        "chip_hours",
        "cost_stall_usd",
        "cost_usd",
    ]
