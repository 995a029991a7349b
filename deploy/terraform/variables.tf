variable "project" {
  description = "The project of the Composer environment, the bucket and the dataset."
  type        = string
}

variable "location" {
  description = "The location of bucket and dataset, for example us-central1 or EU. It cannot be changed later."
  type        = string
}

variable "bucket" {
  description = "The name of the bucket of run folders and of the outbox."
  type        = string
}

variable "deployment" {
  description = "Part of the key of each run. Deployments that share a dataset need different values."
  type        = string
}

variable "dataset" {
  description = "The BigQuery dataset of the rows."
  type        = string
  default     = "metrics_handler_dataset"
}

variable "channels" {
  description = "The channels of alerts, separated by commas."
  type        = string
  default     = "outbox"
}

variable "account" {
  description = "The id of the service account that is made for the environment."
  type        = string
  default     = "ml-metrics"
}

variable "secrets" {
  description = "The secrets that are made, without a value, and that Airflow may read: connections and keys."
  type        = set(string)
  default     = ["airflow-connections-ml_metrics_warehouse"]
}

variable "cluster_projects" {
  description = "The projects of the GKE clusters on which tests run."
  type        = set(string)
  default     = []
}

variable "log_projects" {
  description = "The projects from whose Cloud Logging tests read goodput, with `cloud_logging`."
  type        = set(string)
  default     = []
}

variable "impersonated_accounts" {
  description = "The full names, projects/PROJECT/serviceAccounts/ADDRESS, of the first accounts of each `impersonation_chain`."
  type        = set(string)
  default     = []
}

variable "workload_accounts" {
  description = "Who workloads are, for example principal://iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/PROJECT.svc.id.goog/subject/ns/ml-metrics/sa/default."
  type        = set(string)
  default     = []
}

variable "wheel_repositories" {
  description = "The full names, projects/PROJECT/locations/LOCATION/repositories/NAME, of repositories with the wheel for the triggerer."
  type        = set(string)
  default     = []
}

variable "keep_runs_days" {
  description = "After how many days the files of runs are deleted. 0: never. Rows in BigQuery stay."
  type        = number
  default     = 0
}

variable "settings" {
  description = "Other settings of section [ml_metrics]."
  type        = map(string)
  default     = {}
}
