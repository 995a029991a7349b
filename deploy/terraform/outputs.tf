# The settings of deploy/composer.sh, but for those that follow from an environment that exists: `dashboard_url`, and
# `celery-worker_concurrency`. A test compares both.
locals {
  settings = {
    "secrets-backend"                          = "airflow.providers.google.cloud.secrets.secret_manager.CloudSecretManagerBackend"
    "secrets-backend_kwargs"                   = "{\"connections_prefix\":\"airflow-connections\",\"variables_prefix\":\"airflow-variables\",\"sep\":\"-\"}"
    "operators-default_deferrable"             = "True"
    "ml_metrics-cluster"                       = "kubernetes"
    "core-dagbag_import_timeout"               = "180"
    "dag_processor-dag_file_processor_timeout" = "180"
    "ml_metrics-storage_root"                  = "gs://${google_storage_bucket.runs.name}/runs"
    "ml_metrics-outbox"                        = "gs://${google_storage_bucket.runs.name}/outbox"
    "ml_metrics-deployment"                    = var.deployment
    "ml_metrics-dataset"                       = google_bigquery_dataset.metrics.dataset_id
    "ml_metrics-channels"                      = var.channels
  }
}

output "service_account" {
  description = "The account of the environment: node_config.service_account."
  value       = google_service_account.airflow.email
}

output "airflow_config_overrides" {
  description = "The settings of the environment: software_config.airflow_config_overrides."
  value       = merge(local.settings, { for key, value in var.settings : "ml_metrics-${key}" => value })
}
