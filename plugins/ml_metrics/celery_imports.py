"""What a worker of Celery imports before it forks the processes of its tasks, which then share it.

Celery imports this module when a worker starts, if its configuration names it:

    AIRFLOW__CELERY__EXTRA_CELERY_CONFIG={"imports": ["ml_metrics.celery_imports"]}
"""

from ml_metrics.preloading import OF_TASKS, share_imports

share_imports(OF_TASKS)
