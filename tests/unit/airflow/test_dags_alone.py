"""A test that cannot become a DAG takes no other test down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions._internal.contextmanager import DagContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.airflow import dags
from ml_metrics.config.naming import CANNOT_BE_READ
from ml_metrics.config.problems import Problem
from ml_metrics.config.validation import MAX_TEXT
from stored_dags import stored

TEST = {"image": "i", "command": ["c"], "schedule": "0 8 * * *"}
MERGES = "b: &x0 {a: 1}\n" + "".join(f"k{n}: &x{n + 1}\n  <<: [{', '.join([f'*x{n}'] * 10)}]\n" for n in range(12))

HOSTILE: dict[str, str | dict[str, Any]] = {
    "long-tag": {"tags": ["x" * 120]},
    "default-against-pattern": {"params": {"p": {"default": "abc", "pattern": "^z$"}}},
    "default-against-length": {"params": {"p": {"default": "abc", "minLength": 9}}},
    "default-against-format": {"params": {"p": {"default": "abc", "format": "date"}}},
    "no-finite-example": "name: no-finite-example\nimage: i\ncommand: [c]\n"
    "params: {p: {default: 1, examples: [.nan]}}\n",
    "retries": {"retries": 10**13},
    "slow-pattern": {"params": {"p": {"default": "a" * 200 + "!", "pattern": "^(a+)+$"}}},
    "long-text-with-pattern": {"params": {"p": {"default": "a" * 100_000, "pattern": "(a?){900}"}}},
    "slow-tag": {"metric_collection_config": {"metric_to_aggregation_strategy": {r"re:(a+)+\1": ["final"]}}},
    "merges": MERGES,
    "never": {"schedule": "0 0 30 2 *"},
    "priority": {"priority": 2**40},
    "nul": {"owner": "a\0b"},
    "long-owner": {"owner": "x" * 3_000},
    "long-text": {"description": "x" * (MAX_TEXT + 1)},
    "surrogate": '{"name": "surrogate", "image": "\\ud800"}',
    "ml-metrics-digest": {},
    "ml-metrics": {},
    "ml-messages": {},
}


def write(folder: Path, name: str, content: str | dict[str, Any]) -> None:
    text = content if isinstance(content, str) else json.dumps({"name": name, **TEST, **content})
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def innocent(tmp_path: Path) -> Path:
    write(tmp_path, "innocent", {})
    return tmp_path


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_no_other_down(innocent: Path, name: str) -> None:
    write(innocent, name, HOSTILE[name])
    made = {dag.dag_id: dag for dag in dags.tests_from(str(innocent))}
    assert made.pop("innocent").task_ids[0] == "run_workload"
    (other,) = made.values()
    assert other.task_ids == [dags.READ_TEST_FILE]
    assert stored(other)
    assert other.dag_id == (f"{name}{CANNOT_BE_READ}" if name.startswith("ml-m") else name)


def test_whatever_raises_while_a_dag_is_built_becomes_a_dag_that_says_so(
    innocent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(innocent, "odd", {"tags": ["odd"]})

    def refuse(test: Any) -> dict[str, Any]:
        if test.name == "odd":
            raise RecursionError("a reason\nin two lines")
        return {}

    monkeypatch.setattr(dags, "parameters", refuse)
    DagContext.autoregistered_dags.clear()
    made = {dag.dag_id: dag for dag in dags.tests_from(str(innocent))}
    assert set(made) == {"innocent", "odd"}
    assert "Airflow cannot make a DAG of this test: RecursionError: a reason in two lines" in (made["odd"].doc_md or "")
    registered = [dag for dag, _ in DagContext.autoregistered_dags if dag.dag_id == "odd"]
    assert registered in ([], [made["odd"]]), "Airflow would find two DAGs with one id, and use none"
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "odd")
    (alone,) = dags.tests_from(str(innocent))
    assert alone.task_ids == [dags.READ_TEST_FILE]


def test_a_dag_that_shows_problems_is_made_whatever_they_contain(tmp_path: Path) -> None:
    problem = Problem("/nowhere/\udcff\0.yaml", 1, "\0", "x" * 10**6)
    dag = dags.placeholder("t", [problem] * 10_000, str(tmp_path))
    assert len(dag.doc_md or "") < 100_000
    assert "\0" not in json.dumps(stored(dag)).replace("\\u0000", "\0")


def test_the_task_of_an_invalid_test_shows_its_problems_though_another_test_has_its_name(
    innocent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (innocent / "other.yaml").write_text(json.dumps({"name": "innocent", **TEST, "timout": 1}))
    wanted = f"innocent{CANNOT_BE_READ}"
    assert {dag.dag_id for dag in dags.tests_from(str(innocent))} == {"innocent", wanted}
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", dags.READ_TEST_FILE)
    assert [dag.dag_id for dag in dags.tests_from(str(innocent))] == [wanted]


@pytest.mark.parametrize("content", [{}, {"timout": 1}, "{"], ids=["valid", "invalid", "unreadable"])
def test_no_file_takes_the_dag_id_of_a_python_file(
    innocent: Path, content: str | dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(innocent))
    (innocent / "another_team.py").write_text('with DAG("another-team"):\n    ...\n')
    write(innocent, "another-team", content)
    made = {dag.dag_id: dag for dag in dags.tests_from(str(innocent))}
    assert set(made) == {"innocent", f"another-team{CANNOT_BE_READ}"}


def test_the_name_of_a_dag_that_shows_problems_belongs_to_it(innocent: Path) -> None:
    """Of two DAGs with one id in one file, Airflow would use none."""
    write(innocent, "hostile", {"name": f"innocent{CANNOT_BE_READ}"})
    write(innocent, "invalid", {"name": "innocent", "timout": 1})
    made = [dag.dag_id for dag in dags.tests_from(str(innocent))]
    assert len(made) == len(set(made)) == 3
    assert "innocent" in made


def test_every_task_has_a_time_limit(innocent: Path) -> None:
    write(innocent, "broken", {"timout": 1})
    write(innocent, "two-hosts", {"hosts": 2})
    tasks = [task for dag in dags.tests_from(str(innocent)) for task in dag.tasks]
    assert len(tasks) == 6 + 1 + 6
    assert all(task.execution_timeout for task in tasks)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=130)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PARAMETER = st.fixed_dictionaries(
    {"default": JSON},
    optional={
        "type": st.sampled_from(
            ["string", "integer", "number", "array", "object", "null", "boolean", ["null", "string"]]
        ),
        "minimum": st.integers() | st.floats(),
        "maximum": st.integers() | st.floats(),
        "minLength": st.integers(0, 2**80),
        "maxLength": st.integers(0, 2**80),
        "pattern": st.sampled_from(["^z$", "(a+)+$", "[", "x"]) | TEXTS,
        "format": st.sampled_from(["date", "date-time", "time", "email", "uri", "regex", "multiline"]) | TEXTS,
        "enum": st.lists(JSON, max_size=3),
        "examples": st.lists(JSON, max_size=3),
        "title": TEXTS,
        "description": TEXTS,
        "section": TEXTS,
    },
)
DEFINITION = st.fixed_dictionaries(
    {},
    optional={
        "description": TEXTS,
        "owner": TEXTS,
        "tags": st.lists(TEXTS, max_size=3),
        "params": st.dictionaries(TEXTS, PARAMETER | JSON, max_size=3),
        "schedule": st.sampled_from(["@daily", "@continuous", "@once", "0 0 31 2 *", "* * * * *", "R R * * *"]) | TEXTS,
        "timeout": st.integers() | st.floats() | TEXTS,
        "startup_timeout": st.integers() | st.floats(),
        "retries": st.integers(),
        "pool": TEXTS,
        "priority": st.integers(),
        "emails": st.lists(TEXTS.map(lambda text: f"{text}@example.com"), max_size=2),
        "image": TEXTS,
        "args": st.lists(TEXTS, max_size=2),
        "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "namespace": TEXTS,
        "labels": st.dictionaries(TEXTS, TEXTS, max_size=2),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(DEFINITION)
def test_whatever_a_file_contains_airflow_can_store_its_dag(tmp_path: Path, definition: dict[str, Any]) -> None:
    """A DAG that Airflow cannot serialise, or its database cannot store, stops every test of the folder."""
    write(tmp_path, "innocent", {})
    (tmp_path / "any.json").write_text(json.dumps({"name": "any", **TEST, **definition}))
    made = list(dags.tests_from(str(tmp_path)))
    assert {dag.dag_id for dag in made} == {"innocent", "any"}
    for dag in made:
        dag.validate()
        text = json.dumps(stored(dag), allow_nan=False)
        assert "\\u0000" not in text.replace("\\\\", "")
