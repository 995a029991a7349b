"""The one line of a DAG file: every test of a folder, and the product's own DAGs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_parsing_context

from ml_metrics.config.dag_files import dag_ids_beside
from ml_metrics.config.naming import RESERVED
from ml_metrics.dags import tests_from
from ml_metrics.errors import ConfigError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection


def load_tests(
    namespace: dict[str, Any], config_root: str | None = None, *, own_dags: bool | Collection[str] = True
) -> None:
    """Put the DAG of every test below a folder, and the product's own DAGs, into the `globals()` of a DAG file.

    Args:
        namespace: `globals()`.
        config_root: The folder of test files. Default: that of the settings.
        own_dags: Which of the product's own DAGs: all, none, or those with these ids. One that another file of the
            DAGs folder defines is left to that file.
    """
    root = config_root or Settings.load().config_root
    wanted = get_parsing_context().dag_id
    of_product = wanted is not None and wanted.startswith(RESERVED)
    made = [] if of_product else list(tests_from(root))
    if wanted is None or of_product:
        # imported here, because the tasks of tests do not need them
        from ml_metrics.product_dags import PRODUCT_DAGS, product_dag

        ids = _chosen(own_dags, PRODUCT_DAGS)
        elsewhere = {} if of_product else dag_ids_beside(ids, Path(root))
        file = Path(namespace.get("__file__", ""))
        made += [product_dag(one) for one in ids if wanted in {None, one} and elsewhere.get(one, file) == file]
    namespace.update({dag.dag_id: dag for dag in made})


def _chosen(own_dags: bool | Collection[str], known: Collection[str]) -> list[str]:  # noqa: FBT001  (what was written)
    if isinstance(own_dags, bool):
        return list(known) if own_dags else []
    named = [own_dags] if isinstance(own_dags, str) else list(own_dags)
    if unknown := sorted(set(named) - set(known)):
        raise ConfigError(f"load_tests, own_dags: {unknown[0]!r} is not one of {', '.join(known)}")
    return named
