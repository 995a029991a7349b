"""Parameters of a test filled in outside Airflow, where a run fills them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.templates import TEMPLATED, rendered
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.definition import TestDefinition


def with_parameters(test: TestDefinition, values: Mapping[str, Any]) -> TestDefinition:
    """Return the test with `{{ params.name }}` replaced by these values or the defaults of the parameters.

    Raises ConfigError for a value without a parameter, and for a template of what only a run has, such as its date.
    """
    for name in values:
        if name not in test.params:
            raise ConfigError(f"{test.name} has no parameter {name!r}{did_you_mean(name, test.params)}")
    params = {name: values.get(name, parameter.default) for name, parameter in test.params.items()}
    known = {"params": params}
    return test.model_copy(
        update={key: rendered(getattr(test, key), known, f"{test.name}: {key}") for key in TEMPLATED}
    )
