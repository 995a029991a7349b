# What ML Metrics needs around an environment of Cloud Composer 3; see docs/composer.md.

resource "google_service_account" "airflow" {
  project      = var.project
  account_id   = var.account
  display_name = "ML Metrics for Apache Airflow"
}

resource "google_storage_bucket" "runs" {
  project                     = var.project
  name                        = var.bucket
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  dynamic "lifecycle_rule" {
    for_each = var.keep_runs_days > 0 ? [var.keep_runs_days] : []
    content {
      action {
        type = "Delete"
      }
      condition {
        age            = lifecycle_rule.value
        matches_prefix = ["runs/"]
      }
    }
  }
}

# The tables are made by the first run, or by `ml-metrics schema`.
resource "google_bigquery_dataset" "metrics" {
  project    = var.project
  dataset_id = var.dataset
  location   = var.location
}

# Without values: those would be in Terraform's state. Add them with `gcloud secrets versions add`.
resource "google_secret_manager_secret" "secret" {
  for_each  = var.secrets
  project   = var.project
  secret_id = each.value

  replication {
    auto {}
  }
}
