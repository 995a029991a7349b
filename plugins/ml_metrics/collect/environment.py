"""The environment of a run: the facts and parameters that expressions can use."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.config.accelerator import Kind
from ml_metrics.config.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.accelerator import Accelerator
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import Workload


@dataclass(frozen=True, slots=True)
class Environment:
    """The accelerator and the parameters of a run."""

    accelerator: Accelerator | None = None
    """None if the run's test is unknown."""
    hosts: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, test: TestDefinition, params: Mapping[str, Any]) -> Self:
        """Return the environment of a run of a test. A parameter that was not given has its default."""
        defaults = {name: param.default for name, param in test.params.items()}
        return cls(test.accelerator, test.pods, {**defaults, **params})

    def fact(self, name: str, workload: Workload | None) -> float | str:
        """Return a fact by its name in expressions, or why it is unknown."""
        if name == "duration":
            seconds = workload.duration_seconds if workload else None
            return "there is no record of how long the workload ran" if seconds is None else seconds
        if self.accelerator is None:
            return f"{name} is unknown: nothing states which accelerator the run used"
        return self._of_device(name, self.accelerator)

    def _of_device(self, name: str, device: Accelerator) -> float | str:
        known: dict[str, float | None] = {
            "hosts": self.hosts,
            # a host without accelerators counts as one chip
            "chips": self.hosts if device.kind is Kind.CPU else device.count * (self.hosts // device.hosts),
            "slices": self.hosts // device.hosts if device.kind is Kind.TPU else None,
            "peak_flops": device.peak_flops,
        }
        value = known[name]
        if value is not None:
            return float(value)
        if name == "slices":
            return f"{device.name} is no TPU: it has no slices"
        return f"{name} is unknown for {device.name}: write the number of your device into the expression"

    def param(self, name: str) -> float | str:
        """Return a parameter of the run, or why it cannot be used."""
        if name not in self.params:
            return f"the run has no parameter {name!r}{did_you_mean(name, self.params)}"
        value = self.params[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            shown = json.dumps(value, default=str)
            return f"the parameter {name!r} is {shown[:60]}, which is not a number"
        return float(value)
