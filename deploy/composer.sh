#!/usr/bin/env bash
# Deploys this project to an environment of Cloud Composer 3; see `deploy/composer.sh --help`.
set -euo pipefail
cd "$(dirname "$0")/.."

HELP='Deploy this project to an environment of Cloud Composer 3. Run again, it changes only what differs.

  deploy/composer.sh --environment NAME --location REGION --storage-root gs://BUCKET/runs [options]

  --environment NAME      the Composer environment
  --location REGION       its region
  --project ID            its project (default: that of gcloud)
  --storage-root URL      the location of run folders, for example gs://my-bucket/runs
  --deployment NAME       part of the key of each run (default: the name of the environment)
  --dataset NAME          the BigQuery dataset of the rows (default: metrics_handler_dataset)
  --channels LIST         the channels of alerts (default: outbox)
  --set KEY=VALUE         another setting of section [ml_metrics]; can be repeated
  --files-only            copy only the files, and skip packages and settings
  --dry-run               print what would be done, and do nothing
  --roles                 list the roles that the service account of the environment needs, and why
  --help                  this text

Files are copied last, so that code never runs without its packages and settings. A change of packages takes
Composer 10 to 20 minutes. Only files of this project are ever deleted from the bucket.'

die() {
  echo "deploy/composer.sh: $1" >&2
  exit 2
}

environment= location= project= storage_root= deployment= dataset=metrics_handler_dataset channels=outbox
files_only= dry_run= settings=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) echo "$HELP"; exit 0 ;;
    --roles) grep -v '^#' deploy/composer-roles.txt; exit 0 ;;
    --files-only) files_only=1 ;;
    --dry-run) dry_run=1 ;;
    --environment | --location | --project | --storage-root | --deployment | --dataset | --channels | --set)
      [ $# -gt 1 ] || die "$1 needs a value"
      case "$1" in
        --environment) environment=$2 ;;
        --location) location=$2 ;;
        --project) project=$2 ;;
        --storage-root) storage_root=$2 ;;
        --deployment) deployment=$2 ;;
        --dataset) dataset=$2 ;;
        --channels) channels=$2 ;;
        --set) settings+=("$2") ;;
      esac
      shift ;;
    *) die "unknown option $1; --help lists them" ;;
  esac
  shift
done
[ -n "$environment" ] || die "--environment is missing"
[ -n "$location" ] || die "--location is missing"
if [ -z "$files_only" ]; then
  case "$storage_root" in
    gs://?*) ;;
    *) die "--storage-root must be a gs:// address: other workers cannot read run folders on the disk of a worker" ;;
  esac
fi
for setting in "${settings[@]}"; do
  case "$setting" in *"|"*) die "--set $setting: a value cannot contain |" ;; ?*=*) ;; *) die "--set $setting: KEY=VALUE is needed" ;; esac
done
command -v gcloud >/dev/null || die "gcloud is not installed: https://cloud.google.com/sdk/docs/install"

where=(--location "$location" ${project:+--project "$project"})

run() {
  if [ -n "$dry_run" ]; then
    printf 'would run:'; printf ' %q' "$@"; echo
  else
    "$@"
  fi
}

describe() {
  gcloud composer environments describe "$environment" "${where[@]}" --format "$1"
}

# --- packages: only those that Composer does not have ------------------------------------------------------------------

packages() {
  grep -vE '^(#|$)' deploy/requirements-composer.txt | tr 'A-Z' 'a-z' | sort
}

installed() {
  # one `name==version` per line, as in the file
  describe 'json(config.softwareConfig.pypiPackages)' | python3 -c '
import json, sys
found = ((json.load(sys.stdin) or {}).get("config", {}).get("softwareConfig") or {}).get("pypiPackages") or {}
print("\n".join(sorted((name + version).lower() for name, version in found.items())))'
}

update_packages() {
  if [ -z "$(comm -23 <(packages) <(installed))" ]; then
    echo "packages: up to date"
    return
  fi
  echo "packages: installing deploy/requirements-composer.txt ..."
  run gcloud composer environments update "$environment" "${where[@]}" \
    --update-pypi-packages-from-file deploy/requirements-composer.txt
}

# --- settings: overrides of Airflow's configuration; Composer rejects AIRFLOW__* as environment variables -----------

wanted_settings() {
  cat <<SETTINGS
secrets-backend=airflow.providers.google.cloud.secrets.secret_manager.CloudSecretManagerBackend
secrets-backend_kwargs={"connections_prefix":"airflow-connections","variables_prefix":"airflow-variables","sep":"-"}
ml_metrics-cluster=kubernetes
ml_metrics-storage_root=$storage_root
ml_metrics-deployment=${deployment:-$environment}
ml_metrics-dataset=$dataset
ml_metrics-channels=$channels
SETTINGS
  for setting in "${settings[@]}"; do echo "ml_metrics-$setting"; done
}

update_settings() {
  local missing
  missing=$(comm -23 <(wanted_settings | sort) <(describe 'json(config.softwareConfig.airflowConfigOverrides)' | python3 -c '
import json, sys
software = (json.load(sys.stdin) or {}).get("config", {}).get("softwareConfig") or {}
for name, value in (software.get("airflowConfigOverrides") or {}).items():
    print(f"{name}={value}")' | sort))
  if [ -z "$missing" ]; then
    echo "settings: up to date"
    return
  fi
  echo "settings: changing"
  sed 's/^/  /' <<<"$missing"
  # values contain commas, so | is the separator
  run gcloud composer environments update "$environment" "${where[@]}" \
    --update-airflow-configs "^|^$(paste -sd'|' <<<"$missing")"
}

# --- files ----------------------------------------------------------------------------------------------------------

# The package is copied to dags/ and to plugins/: only dags/ reaches every component that parses DAGs, and the web server
# loads the dashboard only from plugins/. An ignore file keeps Airflow from parsing the package as DAG files.
stage_files() {
  local folder
  mkdir -p "$stage/dags/include" "$stage/plugins"
  cp dags/*.py "$stage/dags/"
  cp plugins/ml_metrics_plugin.py "$stage/plugins/"
  for folder in dags plugins; do
    cp -R plugins/ml_metrics "$stage/$folder/ml_metrics"
    echo '*' >"$stage/$folder/ml_metrics/.airflowignore"
  done
  cp -R include/metric_configs include/templates "$stage/dags/include/"
  echo '*' >"$stage/dags/include/.airflowignore"
  find "$stage" -name __pycache__ -type d -prune -exec rm -rf {} +
}

stage=
trap '[ -z "$stage" ] || rm -rf "$stage"' EXIT

copy_files() {
  local bucket folder file
  bucket=$(describe 'value(config.dagGcsPrefix)')
  case "$bucket" in gs://?*/dags) bucket=${bucket%/dags} ;; *) die "the environment has no bucket for DAGs: '$bucket'" ;; esac
  stage=$(mktemp -d)
  stage_files
  # code before its users; these folders belong to this project, so files that it no longer has are deleted
  for folder in plugins/ml_metrics dags/ml_metrics dags/include/templates dags/include/metric_configs; do
    run gcloud storage rsync --recursive --delete-unmatched-destination-objects "$stage/$folder" "$bucket/$folder"
  done
  run gcloud storage cp "$stage/dags/include/.airflowignore" "$bucket/dags/include/.airflowignore"
  run gcloud storage cp "$stage/plugins/ml_metrics_plugin.py" "$bucket/plugins/ml_metrics_plugin.py"
  for file in "$stage"/dags/*.py; do
    run gcloud storage cp "$file" "$bucket/dags/$(basename "$file")"
  done
  echo "files: in $bucket; Composer copies them to its components within minutes"
}

describe 'value(config.dagGcsPrefix)' >/dev/null ||
  die "the environment '$environment' cannot be read: check --environment, --location, --project and your account"
if [ -z "$files_only" ]; then
  update_packages
  update_settings
fi
copy_files
