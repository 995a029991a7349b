"""A hostile author's templates, and a user who may only trigger: real DAG runs with a canary in every secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from airflow_home import Home
from campaigns.hostile.attack import VARIANTS, Attack, some_of
from campaigns.hostile.drawing import drawn
from campaigns.hostile.held_child import held
from campaigns.hostile.secrets_of_others import WORD, leaks
from ml_metrics import MlMetricsError
from ml_metrics.config.templates import rendered

Begin = Callable[[str], Attack]
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SECRETS = {
    "AIRFLOW_CONN_SMTP_DEFAULT": f"smtp://user:{WORD}@127.0.0.1:9/",
    "AIRFLOW_CONN_ANOTHER": json.dumps({"conn_type": "http", "password": WORD, "extra": {"token": WORD}}),
    "AIRFLOW_VAR_API_KEY": WORD,
    "AIRFLOW__API_AUTH__JWT_SECRET": f"{WORD}-{'x' * 64}",
    "SOME_SECRET_OF_THE_MACHINE": WORD,
}
EXPRESSIONS = (
    "conn.smtp_default.password", "conn.get('another').extra_dejson", "var.value.api_key", "var.json.get('api_key')",
    "macros.os.environ", "macros.datetime.__init__.__globals__", "ti.xcom_pull(task_ids='x')",
    "ti.get_template_context()",
    "task.dag.__class__.__mro__", "dag.folder", "task_instance.task.test", "params.__class__.__init__.__globals__",
    "''.__class__.__mro__[1].__subclasses__()", "cycler.__init__.__globals__.os.environ", "self.__init__.__globals__",
    "lipsum.__globals__['os'].popen('env').read()", "namespace.__init__.__globals__", "joiner.__init__.__globals__",
    "(params | attr('__class__'))", "('%s' % params)['format']", "'{0.__class__.__init__.__globals__}'.format(params)",
    "ds.__class__.__base__", "run_id.format_map(params)", "params.items.__self__", "request.application", "config",
    "inlet_events", "conf.get('api_auth', 'jwt_secret')", "params.p.__init__.__globals__", "dict.__base__",
    "get_flashed_messages.__globals__", "url_for.__globals__", "range(99999999) | list", "'x' * 10**10",
    f"'<' {'| tojson ' * 40}", f"'{chr(92) * 2}' {'| tojson ' * 40}", " ~ ".join(["params"] * 3000), "'1e400' | float | int",
    "(1,) * 10**10", "10 ** 10 ** 10", "'%0999999999d' % 1", "'x' | center(10**10)",
)  # fmt: skip
"""What a template asks for: secrets, Airflow, Python, or all memory."""


WRAPPED = (
    "{{{{ {0} }}}}",
    "{{% for a in {0} %}}{{{{ a }}}}{{% endfor %}}",
    "{{% set a = {0} %}}{{{{ a }}}}",
    "{{% if {0} %}}x{{% endif %}}",
    "{{% macro m() %}}{{{{ {0} }}}}{{% endmacro %}}{{{{ m() }}}}",
    "{{% include {0} %}}",
    "{{% import {0} as m %}}{{{{ m }}}}",
)


def say_environment() -> list[str]:
    """Return a command that shows all it was given, so that every way leads into its log."""
    program = "import base64, os, sys; t = repr((dict(os.environ), sys.argv)); print(t, base64.b64encode(t.encode()))"
    return ["python3", "-c", program]


def places(template: str) -> dict[str, dict[str, Any]]:
    """Return the keys of a test file in which a template can be."""
    base = {"command": say_environment(), "params": {"p": "1"}}
    return {
        "env": {**base, "env": {"X": template}},
        "args": {**base, "args": [template]},
        "image": {**base, "image": template},
        "annotations": {**base, "annotations": {"a": template}},
        "pod": {**base, "pod": {"metadata": {"annotations": {"a": template}}}},
        "init": {**base, "init_containers": [{"name": "i", "image": "i", "command": ["echo", template]}]},
        "volume": {**base, "volumes": {"/x": {"config_map": template}}},
        "default": {**base, "params": {"p": template}, "env": {"X": "{{ params.p }}"}},
        "node": {**base, "pod": {"spec": {"nodeSelector": {"a": template}}}},
        "description": {**base, "description": template, "owner": template},
    }


def test_templates_in_real_runs(home: Home, attack: Begin) -> None:
    shapes = {
        f"{place}-{number}": content
        for number, expression in enumerate(EXPRESSIONS[:6])
        for place, content in places(f"{{{{ {expression} }}}}").items()
    }
    tests = [home.add_test(f"template-{name}", **content) for name, content in some_of(shapes).items()]
    ends = home.run_all(tests, **SECRETS)
    with attack("S3 templates that ask for secrets, in real runs") as tried:
        shown = leaks(home.path)
        for test in tests:
            output = ends[test][1]
            own = [path for path in shown if test in path]
            said = WORD in output or base64.b64encode(WORD.encode()).decode()[4:-4] in output
            tried.variant(test, held=not own and not said, reached=(own, output[-800:]))
        tried.none("any file", shown)


def test_generated_templates(monkeypatch: pytest.MonkeyPatch, attack: Begin) -> None:
    """The sandbox alone: it answers with text that has no secret, or refuses in the product's words."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    filters = st.sampled_from(["", " | list", " | string", " | attr('__init__')", " | map('upper') | join", " | tojson",
                               "|format", " | pprint", ".__class__", "['__globals__']", " ~ params"])  # fmt: skip
    expressions = st.builds("{0}{1}{2}".format, st.sampled_from(EXPRESSIONS), filters, filters)
    wrapped = st.sampled_from(WRAPPED)
    templates = st.builds(lambda shape, expression: shape.format(expression), wrapped, expressions)
    with attack("S3 generated templates") as tried:
        for template in drawn(templates, VARIANTS):
            tried.variant(template, **refused_or_without_secret(template))


def refused_or_without_secret(template: str) -> dict[str, Any]:
    """Return whether a template was refused, or its text has no secret."""

    def render() -> str:
        try:
            return repr(rendered(template, {"params": {"p": "1"}, "run_id": "r", "ds": "2026-01-01"}, "env"))[: 1 << 20]
        except MlMetricsError as error:
            return f"refused: {error}"

    ended = held(render, seconds=5, wall_seconds=15)
    text = str(ended.value)
    is_refusal = text.startswith("refused: ")  # which may repeat a part of the template, but nothing else
    shows_environment = not is_refusal and "environ" in text.replace(template, "")
    # Python raises MemoryError at the limit of this process only: a worker has none
    ok = ended.well and WORD not in text and "MemoryError" not in text and not shows_environment
    return {"held": ok, "reached": (ended.how, str(ended.value)[:300])}


def test_who_may_trigger_may_not_choose_image_and_command(home: Home, attack: Begin) -> None:
    marker = home.path / "marker-of-a-command"
    confs: dict[str, dict[str, Any]] = {
        "command": {"command": ["touch", str(marker)]},
        "image": {"image": "another/image:1"},
        "both": {"command": ["touch", str(marker)], "image": "another/image:1"},
        "trial": {"command": ["touch", str(marker)], "trial": "yes"},
        "template": {"p": f"{{{{ conn.smtp_default.password }}}} $(touch {marker})"},
        "undeclared": {"env": {"X": "1"}, "args": ["x"], "namespace": "kube-system"},
    }
    home.add_test("by-hand", command=say_environment(), params={"p": "1"}, env={"P": "{{ params.p }}"})
    with attack("S7 image and command of who may only trigger") as tried:
        for what, conf in some_of(confs).items():
            done = home.airflow("dags", "test", "by-hand", "--conf", json.dumps(conf), **SECRETS)
            shown = [*leaks(home.path), *(["its output"] if WORD in done.stdout else [])]
            images = [path for path in Path(home.runs).rglob("workload.json") if "another/image" in path.read_text()]
            tried.variant(what, held=not marker.exists() and not shown and not images, reached=(shown, images))
