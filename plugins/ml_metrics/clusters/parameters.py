"""Parameters filled into a test outside Airflow, where nobody renders its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import did_you_mean
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition

TEMPLATED = ("image", "command", "args", "env")
"""The keys of a test in which templates are rendered: those that Airflow's operator renders, too."""


def with_parameters(test: TestDefinition, values: Mapping[str, Any]) -> TestDefinition:
    """The test with its parameters' defaults, or these values, in place of `{{ params.name }}`.

    Raises ConfigError for a value that no parameter takes, and for a template that only Airflow can render.
    """
    for name in values:
        if name not in test.params:
            raise ConfigError(f"{test.name} has no parameter {name!r}{did_you_mean(name, test.params)}")
    known = {name: values.get(name, parameter.default) for name, parameter in test.params.items()}
    return test.model_copy(update={key: _filled(getattr(test, key), known, test, key) for key in TEMPLATED})


def _filled(value: Any, params: Mapping[str, Any], test: TestDefinition, key: str) -> Any:
    if isinstance(value, str):
        return _rendered(value, params, test, key) if "{" in value else value
    if isinstance(value, dict):
        return {name: _filled(inner, params, test, key) for name, inner in value.items()}
    return tuple(_filled(inner, params, test, key) for inner in value)


def _rendered(text: str, params: Mapping[str, Any], test: TestDefinition, key: str) -> str:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    try:
        return SandboxedEnvironment(undefined=StrictUndefined).from_string(text).render(params=params)
    except TemplateError as error:
        raise ConfigError(f"{test.name}: {key}: {text!r} can only be filled in by Airflow: {error}") from error
