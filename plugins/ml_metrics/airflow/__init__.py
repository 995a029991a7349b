"""All that knows Airflow and Kubernetes: DAGs, operators, callbacks, connections, clusters, doctor, OpenTelemetry."""

from typing import TYPE_CHECKING

from ml_metrics.core.lazy import on_first_use

if TYPE_CHECKING:
    from ml_metrics.airflow.assets import passed_asset
    from ml_metrics.airflow.channels import load_mail_settings
    from ml_metrics.airflow.cluster_check import ClusterCheck, NodePool, check_cluster, namespace_by_connection
    from ml_metrics.airflow.clusters.manifests import job_set, with_parameters
    from ml_metrics.airflow.connections import cluster_kubeconfig, warehouse
    from ml_metrics.airflow.dags import accelerator_test, load_tests, tests_from
    from ml_metrics.airflow.doctor import Check, diagnose
    from ml_metrics.airflow.preloading import preload

__getattr__ = on_first_use(__name__)
