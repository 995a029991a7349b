"""What is recorded about the start of a run: who started it, and whether it is a trial."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow.storage_mark import check_storage
from ml_metrics.config.params import NOTIFY, addresses_in, same, trial_of
from ml_metrics.config.policy import current_policy
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.judge import origin_of
from ml_metrics.store.run_folder import RunFolder, listing_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.params import Usual


DAGS_TEST = "dag_test"
"""The user that Airflow states for `airflow dags test`."""
FIELDS = ("trial", "started_by", "notify")


def start_of(run: Run, folder: RunFolder, dag_run: Any, params: Mapping[str, Any], usual: Usual) -> dict[str, Any]:
    """Return the fields `trial`, `started_by` and `notify` of `run.json`.

    They are decided once: retries and clears keep them. A run that confirms another one is a trial exactly if that
    one is. Any user who triggers a run can give it the id of a confirming one, so it must have the same parameters.
    """
    earlier = _document(folder)
    if "trial" in earlier:
        return {name: earlier.get(name) for name in FIELDS}
    # the run type is a text, or an enum whose str() differs between versions of Airflow
    run_type = str(getattr(dag_run.run_type, "value", dag_run.run_type))
    trial, user = list(trial_of(run_type, params, usual)), dag_run.triggering_user_name
    origin, number = origin_of(run.run_id)
    if number and (confirmed := _document(RunFolder.of(replace(run, run_id=origin), Settings.load().storage_root))):
        trial = (confirmed.get("trial") or []) if same(dict(params), confirmed.get("params") or {}) else trial
    named, policy = () if NOTIFY in usual.params else addresses_in(params.get(NOTIFY)), current_policy()
    addresses = [address for address in named if policy.allows("recipients", address)]
    return {"trial": trial, "started_by": None if user == DAGS_TEST else user, "notify": addresses}


def _document(folder: RunFolder) -> dict[str, Any]:
    """Return the identity of a run, empty if it is missing or not of this deployment: it is written anew then."""
    return folder.read("run") or {}


RUN_FOLDER = "run_folder"
"""The XCom of `run_workload`: where it has recorded which run this is."""


def run_of(test: str, context: Mapping[str, Any]) -> Run:
    """The run id alone identifies it: a manual run has no logical date."""
    dag_run = context["dag_run"]
    return Run(test=test, dag_id=dag_run.dag_id, run_id=dag_run.run_id, deployment=Settings.load().deployment)


def folder_of(test: str, context: Mapping[str, Any]) -> RunFolder:
    """Raises ConfigError if other tasks would not see the folder, StorageError if its storage is not mounted."""
    settings = Settings.load()
    check_storage(settings)
    return RunFolder.of(run_of(test, context), settings.storage_root, listing_limits(settings))


RUN_KEY = "ml-metrics/run-key"
"""The label that identifies the objects of a run."""
