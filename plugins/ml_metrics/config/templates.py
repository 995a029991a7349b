"""Templates in a test file: `{{ params.name }}`, the dates of a run and its id, in a small part of Jinja.

The author of a test file is no administrator of Airflow. A template therefore knows plain values only, and consists of
nodes that take no more time and memory than their text is long: no loops, no assignments, no calls but those that
format a date, no repetition of texts. `secrets` is the key for what a workload may know and nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.text import shortened

if TYPE_CHECKING:
    from jinja2 import Environment, nodes


TEMPLATED = (
    "image", "command", "args", "env", "annotations", "service_account", "priority_class", "tolerations", "volumes",
    "init_containers", "pod", "faults",
)  # fmt: skip
"""The keys of a test in which templates are filled in."""
NAMES = frozenset({
    "params", "run_id", "dag_id", "ds", "ds_nodash", "ts", "ts_nodash", "logical_date", "run_after",
    "data_interval_start", "data_interval_end",
})  # fmt: skip
"""What a template can use."""
NODES = frozenset({
    "Template", "Output", "TemplateData", "If", "Name", "Const", "Getattr", "Getitem", "Filter", "Test", "Compare",
    "Operand", "And", "Or", "Not", "CondExpr", "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Neg", "Pos", "Concat",
    "List", "Tuple", "Dict", "Pair", "Slice", "Keyword", "Call",
})  # fmt: skip
FILTERS = frozenset({
    "abs", "d", "default", "ds", "ds_nodash", "first", "float", "int", "join", "last", "length", "lower", "replace",
    "round", "tojson", "trim", "ts", "ts_nodash", "upper",
})  # fmt: skip
METHODS = frozenset({"strftime", "isoformat", "date"})
"""The methods of dates that a template can call."""
MAX_TEMPLATE = 16 * 1024
MAX_RENDERED = MAX_KNOWN = 256 * 1024
"""Kubernetes accepts less for a whole container. The limit also holds for the values that a template can use, since
a user who triggers a run can pass parameters of any length."""
MAX_PARTS = 200
"""Names and filters of a template, each of which makes a text of its own."""
TOO_DEEP = (RecursionError, SyntaxError, MemoryError)
"""What Jinja and Python raise for what is nested too deep."""
_SIMPLE = re.compile(r"[^{]*(?:\{\{ ?params\.[A-Za-z]\w{0,63} ?\}\}[^{]*|\{(?![{%])[^{]*)*")
"""Texts whose templates are single parameters, which is nearly all of them, or which have none."""


def is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def template_problem(text: str) -> str | None:
    return None if not is_template(text) or _SIMPLE.fullmatch(text) else _problem(text)


def rendered(value: Any, known: Mapping[str, Any], where: str) -> Any:
    """Keys of mappings are left as they are. Raises ConfigError, which never shows a value."""
    if isinstance(value, str):
        return _rendered_text(value, known, where) if is_template(value) else value
    if isinstance(value, dict):
        return {key: rendered(inner, known, where) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(rendered(inner, known, where) for inner in value)
    if isinstance(value, BaseModel):
        return value.model_copy(update=rendered(dict(value), known, where))
    return value


def known_of(context: Mapping[str, Any]) -> dict[str, Any]:
    """Values that were not set are left out: a manual run has no logical date, so `{{ ds }}` is unknown in it."""
    given = {name: context.get(name) for name in sorted(NAMES)}
    given["dag_id"] = getattr(context.get("ti"), "dag_id", None) or given["dag_id"]
    given["run_after"] = getattr(context.get("dag_run"), "run_after", None) or given["run_after"]
    found = {name: value for name, value in given.items() if isinstance(value, str | date)}
    return {**found, "params": dict(context.get("params") or {})}


def _rendered_text(text: str, known: Mapping[str, Any], where: str) -> str:
    from jinja2 import TemplateError

    if problem := template_problem(text):
        raise ConfigError(f"{where}: {problem}")
    made = ""
    try:
        if len(repr(known)) > MAX_KNOWN:
            raise ConfigError(f"{where}: the parameters have more than {MAX_KNOWN} characters, too many for a template")
        for part in _environment().from_string(text).generate(**{"params": {}, **known}):
            made += part
            if len(made) > MAX_RENDERED:
                what = f"makes a text of more than {MAX_RENDERED} characters"
                raise ConfigError(f"{where}: the template {shortened(text)!r} {what}")
    except TemplateError as error:
        raise ConfigError(f"{where}: the template {text!r} cannot be filled in: {error.message}") from None
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError, AttributeError, *TOO_DEEP) as error:
        kind = type(error).__name__  # its text may hold a value
        raise ConfigError(f"{where}: the template {text!r} cannot be filled in: {kind}") from None
    return made


@lru_cache(maxsize=4096)
def _problem(text: str) -> str | None:
    from jinja2 import TemplateSyntaxError

    if len(text) > MAX_TEMPLATE:
        return f"a text with templates has at most {MAX_TEMPLATE} characters, not {len(text)}"
    found: list[nodes.Node] = []
    try:
        waiting: list[nodes.Node] = [_environment().parse(text)]
        while waiting:  # without recursion: expressions may be nested deeply
            found.append(waiting.pop())
            waiting.extend(found[-1].iter_child_nodes())
    except TemplateSyntaxError as error:
        return f"{shortened(text)!r} is not a template: {error.message}"
    except (ValueError, OverflowError, *TOO_DEEP) as error:
        return f"{shortened(text)!r} is not a template: {type(error).__name__}"
    if sum(type(node).__name__ in {"Name", "Filter"} for node in found) > MAX_PARTS:
        return f"a template has at most {MAX_PARTS} names and filters"
    return next(filter(None, map(_refused, found)), None)


def _refused(node: Any) -> str | None:
    kind = type(node).__name__
    if kind not in NODES:
        return f"a template cannot contain {kind!r}; write a value, like {{{{ params.name }}}}"
    if kind == "Name" and node.name not in NAMES:
        return f"a template does not know {node.name!r}, only {', '.join(sorted(NAMES))}; use `secrets` for a secret"
    if kind == "Filter" and (node.name not in FILTERS or node.dyn_args or node.dyn_kwargs):
        return f"a template cannot use the filter {node.name!r}; available: {', '.join(sorted(FILTERS))}"
    if kind == "Call" and (getattr(node.node, "attr", None) not in METHODS or node.dyn_args or node.dyn_kwargs):
        return f"a template can only call {', '.join(sorted(METHODS))} of a date"
    return None


@cache
def _environment() -> Environment:
    from jinja2 import StrictUndefined, Undefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        """Refuses what would take memory: repeated and formatted texts, and numbers without an end."""

        intercepted_binops = frozenset({"*", "%"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if not (isinstance(left, int | float) and isinstance(right, int | float)):
                raise SecurityError(f"{operator!r} is for numbers only")
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, /, *args: Any, **options: Any) -> Any:
            if not isinstance(getattr(obj, "__self__", None), date):
                raise SecurityError("only dates can be formatted")
            return super().call(context, obj, *args, **options)

    def plain(value: Any) -> Any:
        if callable(value) and not isinstance(value, Undefined):
            raise TypeError("no value")  # the text of a method would be an address in memory
        return value

    made = Sandbox(
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=plain,
        comment_start_string="{#\0",  # no text has it: `${#list[@]}` of a shell is no comment
        comment_end_string="\0#}",
    )
    made.globals.clear()
    made.filters = {name: made.filters[name] for name in FILTERS if name in made.filters}
    made.filters |= {"replace": _replaced, "join": _joined, "round": _rounded, "tojson": _as_json, **DATES}
    return made


def _bounded(size: int) -> None:
    """Each filter can make a text many times as long, so that several take all memory."""
    if size > MAX_RENDERED:
        raise ValueError("the text becomes too long")


def _replaced(value: Any, old: Any, new: Any) -> str:
    text, before, after = str(value), str(old), str(new)
    _bounded(len(text) + text.count(before) * len(after))
    return text.replace(before, after)


def _joined(items: Any, between: Any = "") -> str:
    parts = [str(item) for item in items]
    _bounded(sum(map(len, parts)) + len(parts) * len(str(between)))
    return str(between).join(parts)


def _as_json(value: Any) -> str:
    from jinja2.utils import htmlsafe_json_dumps

    text = str(htmlsafe_json_dumps(value, sort_keys=True))
    _bounded(len(text))
    return text


def _rounded(value: Any, precision: int = 0) -> float:
    return round(float(value), max(-15, min(15, int(precision))))


DATES: dict[str, Callable[[Any], str]] = {
    "ds": lambda moment: moment.strftime("%Y-%m-%d"),
    "ds_nodash": lambda moment: moment.strftime("%Y%m%d"),
    "ts": lambda moment: moment.isoformat(),
    "ts_nodash": lambda moment: moment.strftime("%Y%m%dT%H%M%S"),
}
"""Airflow's own filters for dates."""
