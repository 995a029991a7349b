"""Import errors that name the new place of modules that have moved."""

import sys

MOVED = {
    "ml_metrics.spec": "`ml_metrics.config`, and `TestSpec` is now `TestDefinition`: "
    "write `from ml_metrics import TestDefinition`",
    "ml_metrics.clusters.local": "the package `local_kube`: write `from local_kube import LocalCluster`",
    "ml_metrics.operators.connections": "`ml_metrics.connections`",
    "ml_metrics.cloud.test_file": "`ml_metrics.cloud.goodput`",
    **{
        f"ml_metrics.telemetry.{name}": f"`ml_metrics_telemetry.{name}`"
        for name in ("destinations", "event_file", "handlers", "record_log", "recorder", "streams")
    },
}
"""The new place of each module, as the end of a sentence."""


class MovedModules:
    """The last finder on `sys.meta_path`: it finds no module, but explains where a moved one is now."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004  (Python's signature)
        """Raise ImportError for a module that has moved."""
        if name in MOVED:
            # not ModuleNotFoundError: `from ml_metrics import spec` would replace its message
            raise ImportError(f"`{name}` is now {MOVED[name]}", name=name)


def explain_moved_modules() -> None:
    """Explain failing imports of moved modules from now on. Other imports are not affected."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
