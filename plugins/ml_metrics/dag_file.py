"""The one line of a DAG file: every test of a folder, and the product's own DAGs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_parsing_context

from ml_metrics.config.dag_files import dag_ids_beside
from ml_metrics.dags import tests_from
from ml_metrics.errors import ConfigError
from ml_metrics.product_dags import PRODUCT_DAGS, product_dag
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow.sdk import DAG


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
    ids = _chosen(own_dags)
    wanted = get_parsing_context().dag_id
    if wanted in PRODUCT_DAGS:
        made = [product_dag(wanted)] if wanted in ids else []
    elif wanted is not None:
        made = list(tests_from(root))
    else:
        made = [*tests_from(root), *_own(ids, root, Path(namespace.get("__file__", "")))]
    namespace.update({dag.dag_id: dag for dag in made})


def _chosen(own_dags: bool | Collection[str]) -> list[str]:  # noqa: FBT001  (what the user wrote)
    if isinstance(own_dags, bool):
        return list(PRODUCT_DAGS) if own_dags else []
    named = [own_dags] if isinstance(own_dags, str) else list(own_dags)
    if unknown := sorted(set(named) - PRODUCT_DAGS.keys()):
        raise ConfigError(f"load_tests, own_dags: {unknown[0]!r} is not one of {', '.join(PRODUCT_DAGS)}")
    return named


def _own(ids: Collection[str], root: str, file: Path) -> Iterator[DAG]:
    """Yield the product's own DAGs but those of other files: of two DAGs with one id, Airflow shows either."""
    elsewhere = {dag_id for dag_id, path in dag_ids_beside(ids, Path(root)).items() if path != file}
    return (product_dag(dag_id) for dag_id in ids if dag_id not in elsewhere)
