"""Modules that are found by the names that they had before: Airflow and users have stored some of them.

Airflow keeps the paths of triggers and callbacks of runs that have begun in its database. A configuration of Celery, a
DAG file and a training program name modules, too.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the cost of `import ml_metrics`
if TYPE_CHECKING:
    from types import ModuleType

MOVED = {
    "ml_metrics.celery_imports": "ml_metrics.airflow.celery_imports",
    "ml_metrics.cloud": "ml_metrics.measure.cloud",
    "ml_metrics.goodput": "ml_metrics.measure.goodput",
    "ml_metrics.notify": "ml_metrics.airflow",
    "ml_metrics.notify.callbacks": "ml_metrics.airflow.callbacks",
    "ml_metrics.operators": "ml_metrics.airflow.operators",
    "ml_metrics.operators.answer_trigger": "ml_metrics.airflow.operators.answer_trigger",
    "ml_metrics.operators.pod_trigger": "ml_metrics.airflow.operators.pod_trigger",
    "ml_metrics.product_dags": "ml_metrics.airflow.product_dags",
}


class Moved:
    """Finds and loads them: a module has both names."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how a module is found that was moved."""
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]  # of importlib's own classes

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that has another name now."""
        found = import_module(MOVED[spec.name])
        spec.loader_state = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Leave to the module what is said of its own name."""
        spec = module.__spec__
        if spec is not None and spec.name in MOVED:
            module.__spec__ = spec.loader_state


def find_moved() -> None:
    """Find them from now on."""
    sys.meta_path.append(Moved())  # type: ignore[arg-type]
