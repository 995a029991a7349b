# The roles of deploy/composer-roles.txt, each on the resource that is named there. A test compares both.

locals {
  member = "serviceAccount:${google_service_account.airflow.email}"

  project_roles = [
    "roles/composer.worker",
    "roles/bigquery.jobUser",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/errorreporting.writer",
  ]

  cluster_project_roles = [
    "roles/container.clusterViewer",
    "roles/monitoring.viewer",
  ]
}

resource "google_project_iam_member" "project" {
  for_each = toset(local.project_roles)
  project  = var.project
  role     = each.value
  member   = local.member
}

resource "google_project_iam_member" "cluster_project" {
  for_each = { for pair in setproduct(var.cluster_projects, local.cluster_project_roles) : join(" ", pair) => pair }
  project  = each.value[0]
  role     = each.value[1]
  member   = local.member
}

resource "google_project_iam_member" "log_project" {
  for_each = var.log_projects
  project  = each.value
  role     = "roles/logging.viewer"
  member   = local.member
}

resource "google_bigquery_dataset_iam_member" "metrics" {
  project    = var.project
  dataset_id = google_bigquery_dataset.metrics.dataset_id
  role       = "roles/bigquery.dataEditor"
  member     = local.member
}

resource "google_storage_bucket_iam_member" "runs" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.objectUser"
  member = local.member
}

resource "google_secret_manager_secret_iam_member" "secret" {
  for_each  = google_secret_manager_secret.secret
  project   = var.project
  secret_id = each.value.secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = local.member
}

resource "google_service_account_iam_member" "impersonated" {
  for_each           = var.impersonated_accounts
  service_account_id = each.value
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = local.member
}

resource "google_service_account_iam_member" "itself" {
  service_account_id = google_service_account.airflow.name
  role               = "roles/iam.serviceAccountUser"
  member             = local.member
}

resource "google_artifact_registry_repository_iam_member" "wheels" {
  for_each   = var.wheel_repositories
  project    = split("/", each.value)[1]
  location   = split("/", each.value)[3]
  repository = split("/", each.value)[5]
  role       = "roles/artifactregistry.reader"
  member     = local.member
}

# Workloads write their run folders as the Kubernetes accounts of their pods: GKE's Workload Identity, without a key.
resource "google_storage_bucket_iam_member" "workloads" {
  for_each = var.workload_accounts
  bucket   = google_storage_bucket.runs.name
  role     = "roles/storage.objectUser"
  member   = each.value
}
