from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.config.templates import MAX_KNOWN, is_template, known_of, rendered, template_problem

WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KNOWN: dict[str, Any] = {
    "params": {"epochs": 3, "name": "big", "tags": ["a", "b"], "deep": {"x": {"y": 1}}},
    "run_id": "manual__1",
    "logical_date": WHEN,
    "ds": "2026-03-04",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--epochs={{ params.epochs }}", "--epochs=3"),
        ("{{params.epochs}}{{ params.name }}", "3big"),
        ("{{ params['deep'].x.y + 1 }}", "2"),
        ("{% if params.epochs > 2 %}long{% else %}short{% endif %}", "long"),
        ("{{ params.tags | join(',') }}", "a,b"),
        ("{{ params.tags | tojson }}", '["a", "b"]'),
        ("{{ ds }} {{ logical_date.strftime('%H') }} {{ logical_date | ts_nodash }}", "2026-03-04 05 20260304T050607"),
        ("{{ params.absent | default('none') }}", "none"),
        ("{{ params.name | replace('b', 'p') | upper }}", "PIG"),
        ("for f in ${#list[@]} {a,b} $(X)", "for f in ${#list[@]} {a,b} $(X)"),
        ("echo ${#list[@]} {{ params.epochs }}\n", "echo ${#list[@]} 3\n"),
    ],
)
def test_what_a_template_makes(text: str, expected: str) -> None:
    assert rendered(text, KNOWN, "t") == expected


HOSTILE = [
    "{{ conn.smtp_default.password }}",
    "{{ var.value.key }}",
    "{{ ti.xcom_pull('x') }}",
    "{{ dag_run.conf }}",
    "{{ macros.os }}",
    "{{ params.__class__.__mro__ }}",
    "{{ params['__class__'] }}",
    "{{ ''|attr('__class__') }}",
    "{{ params.name.format }}",
    "{{ params.name.format(1) }}",
    "{{ logical_date.__class__ }}",
    "{{ logical_date.strftime }}",
    "{{ logical_date.strftime.__globals__ }}",
    "{{ logical_date.tzinfo.__reduce__() }}",
    "{{ params.deep.update(x=1) }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum() }}",
    "{{ range(10 ** 9) | list }}",
    "{{ 'a' * 10000000000 }}",
    "{{ params.tags * 10000000000 }}",
    "{{ '%10000000000d' % 1 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{% for i in params.tags %}x{% endfor %}",
    "{% set x = 1 %}{{ x }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'x' %}",
    "{{ 'x' | center(1000000000) }}",
    "{{ 'x' | indent(1000000000) }}",
    "{{ params.name | map('upper') }}",
    "{{ self }}",
    "{{",
    "{% if %}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{{ 'a' " + "| replace('a', 'aa') " * 60 + "}}",
    "{{ [" + "'a'," * 3000 + "] | join('" + "b" * 3000 + "') }}",
    "{% if 1 %}" * 300 + "{% endif %}" * 300,
    "{{ 1 / 0 }}",
    "{{ params.name + 1 }}",
    "{{ params.missing.password }}",
    "{{ ts }}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_template_that_reaches_further_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^the-test: ") as error:
        rendered({"env": [text]}, KNOWN, "the-test")
    assert "0x" not in str(error.value)


ALPHABET = st.sampled_from([
    "{{", "}}", "{%", "%}", " ", "params", ".", "name", "|", "join", "if", "endif", "for", "in", "(", ")", "[", "]",
    "'a'", "*", "**", "%", "99999999", "+", "~", "conn", "__class__", "replace", ",", "set", "=", "logical_date",
    "strftime", "not", "is", "defined", "{", "#", "raw", "endraw", ":", "-", "\n",
])  # fmt: skip


@given(st.lists(ALPHABET, max_size=25).map("".join))
def test_any_text_is_rendered_or_an_error(text: str) -> None:
    try:
        made = rendered(text, KNOWN, "t")
    except ConfigError:
        return
    assert len(made) <= 1000
    assert "<" not in made, "no object of Python is shown"


@given(st.text(max_size=60))
def test_texts_without_templates_stay_as_they_are(text: str) -> None:
    if not is_template(text):
        assert rendered(text, {}, "t") is text
        assert template_problem(text) is None


def test_memory_and_time_of_hostile_templates_are_bounded() -> None:
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from ml_metrics.config.templates import MAX_TEMPLATE, rendered
from ml_metrics.core.errors import ConfigError
import jinja2, datetime
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
known = {{"params": {{"name": "a" * 1000, "tags": ["a"] * 1000}}, "logical_date": datetime.datetime.now(datetime.UTC)}}
GROWING = [
    "{{{{ '" + letter + "' " + "| tojson " * 60 + "}}}}" for letter in ("<", "&", chr(92) * 2)
]
GROWING += ["{{{{ logical_date.strftime('%999999999d') }}}}", "{{{{ params.name }}}}" * 2_000]
GROWING += ["{{{{ " + " ~ ".join(["params.name"] * (MAX_TEMPLATE // 15)) + " }}}}"]
for text in {HOSTILE!r} + ["{{{{ params.name | int(base=36) }}}}", *GROWING]:
    try:
        rendered(text, known, "t")
    except ConfigError:
        pass
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_parameters_of_any_length_are_no_texts_for_templates() -> None:
    """Who triggers a run states them."""
    for value in ("a" * MAX_KNOWN, ["a" * 1000] * 300, {"a": {"b" * MAX_KNOWN: 1}}):
        with pytest.raises(ConfigError, match="too many for a template"):
            rendered("{{ params.a }}", {"params": {"a": value}}, "t")


def test_a_number_that_python_has_no_word_for_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot be filled in"):
        rendered("{{ '1e400' | float | int }}", KNOWN, "t")


def test_a_run_by_hand_has_no_date() -> None:
    ti = SimpleNamespace(dag_id="d")
    run = SimpleNamespace(run_after=WHEN)
    context = {"ti": ti, "dag_run": run, "run_id": "r", "params": {"p": 1}, "conn": object(), "logical_date": None}
    assert known_of(context) == {"params": {"p": 1}, "run_id": "r", "dag_id": "d", "run_after": WHEN}
    with pytest.raises(ConfigError, match="'ds' is undefined"):
        rendered("{{ ds }}", known_of(context), "t")


def test_an_error_shows_no_value() -> None:
    with pytest.raises(ConfigError) as error:
        rendered("{{ params.key | int(default=1) + params.key }}", {"params": {"key": "hunter2"}}, "t")
    assert "hunter2" not in str(error.value)
