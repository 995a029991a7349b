#!/usr/bin/env bash
# Bring this project to an environment of Cloud Composer 3. `deploy/composer.sh --help` tells how.
set -euo pipefail
cd "$(dirname "$0")/.."

HELP='Bring this project to an environment of Cloud Composer 3. Run again, it changes only what differs.

  deploy/composer.sh --environment NAME --location REGION --storage-root gs://BUCKET/runs [options]

  --environment NAME      the Composer environment
  --location REGION       where it is
  --project ID            its project (default: that of gcloud)
  --storage-root URL      where run folders are made, for example gs://my-bucket/runs
  --deployment NAME       part of the key of each run (default: the name of the environment)
  --dataset NAME          the BigQuery dataset of the rows (default: metrics_handler_dataset)
  --channels LIST         where messages go (default: outbox)
  --set KEY=VALUE         one more setting of section [ml_metrics]; may be given several times
  --files-only            copy the files, and leave packages and settings alone
  --dry-run               say what would be done, and do nothing
  --roles                 list the roles that the service account of the environment needs, and why
  --help                  this text

Files come last, so that code never runs without the packages and settings that it needs; a change of packages
takes Composer 10 to 20 minutes. Only files of this project are ever deleted from the bucket.'

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
    *) die "--storage-root must be a gs:// address: run folders on a worker's own disk are seen by no other worker" ;;
  esac
fi
for setting in "${settings[@]}"; do
  case "$setting" in *"|"*) die "--set $setting: a value cannot hold |" ;; ?*=*) ;; *) die "--set $setting: KEY=VALUE is needed" ;; esac
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

asked() {
  gcloud composer environments describe "$environment" "${where[@]}" --format "$1"
}

# --- packages: a delta to what Composer ships -----------------------------------------------------------------------

packages() {
  grep -vE '^(#|$)' deploy/requirements-composer.txt | tr 'A-Z' 'a-z' | sort
}

installed() {
  # one `name==version` in each line, as in the file
  asked 'json(config.softwareConfig.pypiPackages)' | python3 -c '
import json, sys
found = ((json.load(sys.stdin) or {}).get("config", {}).get("softwareConfig") or {}).get("pypiPackages") or {}
print("\n".join(sorted((name + version).lower() for name, version in found.items())))'
}

bring_packages() {
  if [ -z "$(comm -23 <(packages) <(installed))" ]; then
    echo "packages: as they should be"
    return
  fi
  echo "packages: installing what requirements-composer.txt lists ..."
  run gcloud composer environments update "$environment" "${where[@]}" \
    --update-pypi-packages-from-file deploy/requirements-composer.txt
}

# --- settings: overrides of Airflow's configuration; Composer refuses AIRFLOW__* as environment variables ------------

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

bring_settings() {
  local missing
  missing=$(comm -23 <(wanted_settings | sort) <(asked 'json(config.softwareConfig.airflowConfigOverrides)' | python3 -c '
import json, sys
software = (json.load(sys.stdin) or {}).get("config", {}).get("softwareConfig") or {}
for name, value in (software.get("airflowConfigOverrides") or {}).items():
    print(f"{name}={value}")' | sort))
  if [ -z "$missing" ]; then
    echo "settings: as they should be"
    return
  fi
  echo "settings: changing"
  sed 's/^/  /' <<<"$missing"
  # values hold commas, so another sign parts them
  run gcloud composer environments update "$environment" "${where[@]}" \
    --update-airflow-configs "^|^$(paste -sd'|' <<<"$missing")"
}

# --- files ----------------------------------------------------------------------------------------------------------

# The package lies in dags/ and in plugins/: only dags/ is carried to every component that reads DAGs, and only from
# plugins/ does the web server load the page. An ignore file of its own keeps Airflow from taking it for DAG files.
lay_out() {
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

bring_files() {
  local bucket folder file
  bucket=$(asked 'value(config.dagGcsPrefix)')
  case "$bucket" in gs://?*/dags) bucket=${bucket%/dags} ;; *) die "the environment does not tell its bucket: '$bucket'" ;; esac
  stage=$(mktemp -d)
  lay_out
  # code before what uses it; each of these folders is this project's own, so what is no longer there goes
  for folder in plugins/ml_metrics dags/ml_metrics dags/include/templates dags/include/metric_configs; do
    run gcloud storage rsync --recursive --delete-unmatched-destination-objects "$stage/$folder" "$bucket/$folder"
  done
  run gcloud storage cp "$stage/dags/include/.airflowignore" "$bucket/dags/include/.airflowignore"
  run gcloud storage cp "$stage/plugins/ml_metrics_plugin.py" "$bucket/plugins/ml_metrics_plugin.py"
  for file in "$stage"/dags/*.py; do
    run gcloud storage cp "$file" "$bucket/dags/$(basename "$file")"
  done
  echo "files: in $bucket; Composer carries them to its components within minutes"
}

if [ -z "$files_only" ]; then
  bring_packages
  bring_settings
fi
bring_files
