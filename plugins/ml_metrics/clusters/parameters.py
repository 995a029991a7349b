"""Parameters of a test filled in outside Airflow, which otherwise renders its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import did_you_mean
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition

TEMPLATED = ("image", "command", "args", "env")
"""The keys with templates, which are also rendered by the operator in Airflow."""


def with_parameters(test: TestDefinition, values: Mapping[str, Any]) -> TestDefinition:
    """Return the test with `{{ params.name }}` replaced by these values or the defaults of the parameters.

    Raises ConfigError for a value without a parameter, and for a template that only Airflow can render.
    """
    for name in values:
        if name not in test.params:
            raise ConfigError(f"{test.name} has no parameter {name!r}{did_you_mean(name, test.params)}")
    params = {name: values.get(name, parameter.default) for name, parameter in test.params.items()}
    return test.model_copy(update={key: _filled(getattr(test, key), params, test, key) for key in TEMPLATED})


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
        raise ConfigError(f"{test.name}: {key}: only Airflow can render {text!r}: {error}") from error
