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
    "ml_metrics.airflow.operators.run_job_set": "ml_metrics.airflow.operators.run_workload",
    "ml_metrics.cloud": "ml_metrics.measure.cloud",
    "ml_metrics.goodput": "ml_metrics.measure.goodput",
    "ml_metrics.notify": "ml_metrics.airflow",
    "ml_metrics.operators": "ml_metrics.airflow.operators",
    "ml_metrics.product_dags": "ml_metrics.airflow.product_dags",
}
"""Modules and packages, the modules in these included."""


class Moved:
    """Finds and loads a module under its older name: it is one module with two names."""

    @staticmethod
    def present(name: str) -> str | None:
        """None if the module has not been moved."""
        package, _, module = name.rpartition(".")
        return MOVED.get(name) or (f"{MOVED[package]}.{module}" if package in MOVED else None)

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if self.present(name) else None  # type: ignore[arg-type]  # as importlib's own

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = import_module(self.present(spec.name) or spec.name)
        spec.loader_state = found.__spec__
        return found

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Leave to the module what is known of its present name."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def find_moved() -> None:
    """Find them from now on, before the files of a package do, which would load a module twice."""
    sys.meta_path.insert(0, Moved())
