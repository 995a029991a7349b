"""Imports what tasks need in a Celery worker, before the worker forks their processes.

Celery imports this module at the start of a worker, if the configuration of Celery names the module:

    AIRFLOW__CELERY__EXTRA_CELERY_CONFIG={"imports": ["ml_metrics.airflow.celery_imports"]}
"""

from ml_metrics.airflow.preloading import OF_TASKS, share_imports

share_imports(OF_TASKS)
