#!/usr/bin/env bash
# Deploys this project to an environment of Cloud Composer 3; see `deploy/composer.sh --help`.
# It runs on the bash 3.2 of macOS: an empty array is expanded as ${array[@]+"${array[@]}"}, and `paste` gets a `-`.
set -euo pipefail
start=$PWD
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
  --outbox URL            the folder of the channel outbox, and of messages that no channel
                          accepts (default: gs://BUCKET/outbox, in the bucket of run folders)
  --clusters FILE         the file of clusters, which is copied to dags/ (docs/kubernetes.md)
  --set KEY=VALUE         another setting of section [ml_metrics]; can be repeated
  --files-only            copy only the files, and skip packages and settings
  --dry-run               check what can be checked, print what would be done, and do nothing
  --roles                 list the roles that the service account of the environment needs, and why; with
                          --environment and the other options, as commands that grant them
  --help                  this text

Files are copied last, so that code never runs without its packages and settings. A change of packages takes
Composer 10 to 20 minutes. Only files of this project are ever deleted from the bucket.'

die() {
  echo "deploy/composer.sh: $1" >&2
  exit 2
}

environment= location= project= storage_root= deployment= dataset=metrics_handler_dataset channels=outbox
outbox= clusters= files_only= dry_run= roles= settings=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) echo "$HELP"; exit 0 ;;
    --roles) roles=1 ;;
    --files-only) files_only=1 ;;
    --dry-run) dry_run=1 ;;
    --environment | --location | --project | --storage-root | --deployment | --dataset | --channels | --outbox | \
      --clusters | --set)
      [ $# -gt 1 ] || die "$1 needs a value"
      case "$1" in
        --environment) environment=$2 ;;
        --location) location=$2 ;;
        --project) project=$2 ;;
        --storage-root) storage_root=${2%/} ;;
        --deployment) deployment=$2 ;;
        --dataset) dataset=$2 ;;
        --channels) channels=$2 ;;
        --outbox) outbox=${2%/} ;;
        --clusters) case "$2" in /*) clusters=$2 ;; *) clusters=$start/$2 ;; esac ;;
        --set) settings+=("$2") ;;
      esac
      shift ;;
    *) die "unknown option $1; --help lists them" ;;
  esac
  shift
done
if [ -n "$roles" ] && [ -z "$environment" ]; then
  grep -v '^#' deploy/composer-roles.txt
  exit 0
fi
[ -n "$environment" ] || die "--environment is missing"
[ -n "$location" ] || die "--location is missing"
if [ -z "$files_only" ]; then
  case "$storage_root" in
    gs://?*) ;;
    *) die "--storage-root must be a gs:// address: other workers cannot read run folders on the disk of a worker" ;;
  esac
  storage_bucket=gs://$(echo "${storage_root#gs://}" | cut -d/ -f1)
  outbox=${outbox:-$storage_bucket/outbox}
  case "$outbox" in
    gs://?*) ;;
    *) die "--outbox must be a gs:// address: nobody reads mails on the disk of a worker" ;;
  esac
  case "$outbox/" in
    "$storage_root"/*) die "--outbox $outbox is in the folder of run folders; give another one" ;;
  esac
fi
for setting in ${settings[@]+"${settings[@]}"}; do
  case "$setting" in *"|"*) die "--set $setting: a value cannot contain |" ;; ?*=*) ;; *) die "--set $setting: KEY=VALUE is needed" ;; esac
done
[ -z "$clusters" ] || [ -f "$clusters" ] || die "--clusters $clusters: there is no such file"
command -v gcloud >/dev/null || die "gcloud is not installed: https://cloud.google.com/sdk/docs/install"
command -v python3 >/dev/null || die "python3 is not installed"
[ -n "$project" ] || project=$(gcloud config get-value project 2>/dev/null) || true
case "$project" in
  "" | "(unset)") die "no project: give --project ID, or set one with: gcloud config set project ID" ;;
esac

where=(--location "$location" --project "$project")
work=$(mktemp -d)
COPYING=
AGAIN="see above; solve that, and run this again, which goes on where it stopped"
finish() {
  local status=$?
  rm -rf "$work"
  [ $status = 0 ] || [ -z "$COPYING" ] || echo "deploy/composer.sh: not all files were copied: $AGAIN" >&2
}
trap finish EXIT

run() {
  if [ -n "$dry_run" ]; then
    printf 'would run:'; printf ' %q' "$@"; echo
  else
    "$@"
  fi
}

# --- the environment: described once, before anything changes ---------------------------------------------------------

describe() {
  gcloud composer environments describe "$environment" "${where[@]}" --format json >"$work/environment.json" ||
    die "the environment '$environment' cannot be read: check --environment, --location, --project and your account"
  python3 - "$work/environment.json" >"$work/environment" <<'PYTHON' || die "the description of '$environment' is not that of an environment"
import json, sys
environment = json.load(open(sys.argv[1]))
config = environment["config"]
software = config.get("softwareConfig") or {}
print("state", environment.get("state", ""))
print("bucket", config.get("dagGcsPrefix", ""))
print("image", software.get("imageVersion", ""))
print("address", config.get("airflowUri", ""))
worker = (config.get("workloadsConfig") or {}).get("worker") or {}
if worker.get("cpu"):
    # a worker has no other processes of Airflow beside its tasks, and its tasks do not share their imports
    print("concurrency", max(2, min(24, int(2 * worker["cpu"]), int(1000 * worker.get("memoryGb", 64)) // 300)))
print("account", (config.get("nodeConfig") or {}).get("serviceAccount", ""))
for name, version in sorted((software.get("pypiPackages") or {}).items()):
    print("package", (name + version).lower())
overrides = software.get("airflowConfigOverrides") or {}
for name, value in sorted(overrides.items()):
    print("setting", f"{name}={value}")
# the service wants the second to be at least the first: each follows what somebody has chosen for the other
parse, imports = "dag_processor-dag_file_processor_timeout", "core-dagbag_import_timeout"
parse = next((name for name in ("core-dag_file_processor_timeout", parse) if name in overrides), parse)
if parse not in overrides:
    print("timeout", f"{parse}={min(180, int(overrides.get(imports, 180)))}")
if imports not in overrides:
    print("timeout", f"{imports}={max(180, int(overrides.get(parse, 180)))}")
PYTHON
}

described() {
  sed -n "s/^$1 //p" "$work/environment"
}

# --- roles, as commands -------------------------------------------------------------------------------------------------

# What only its owner knows is in capital letters.
grants() {
  local role scope why member command
  member=serviceAccount:$(described account)
  echo "# the dataset, if it does not exist; DATASET_LOCATION is that of --set bigquery_location"
  echo "bq mk --dataset --location DATASET_LOCATION $project:$dataset"
  while IFS='|' read -r role scope why; do
    role=$(echo $role)
    case "$(echo $scope)" in
      "the project") command="gcloud projects add-iam-policy-binding $project --condition None" ;;
      "the project of the log") command="gcloud projects add-iam-policy-binding LOG_PROJECT --condition None" ;;
      "the project of the accelerator clusters") command="gcloud projects add-iam-policy-binding CLUSTER_PROJECT --condition None" ;;
      "the bucket of run folders") command="gcloud storage buckets add-iam-policy-binding $storage_bucket" ;;
      "the secrets") command="gcloud secrets add-iam-policy-binding airflow-connections-ml_metrics_warehouse --project $project" ;;
      "the repository of wheels") command="gcloud artifacts repositories add-iam-policy-binding REPOSITORY --location $location --project $project" ;;
      "the account itself") command="gcloud iam service-accounts add-iam-policy-binding ${member#*:} --project $project" ;;
      "the dataset")
        echo "#$why"
        echo "bq query --project_id $project --use_legacy_sql=false 'GRANT \`$role\` ON SCHEMA \`$project.$dataset\` TO \"$member\"'"
        continue ;;
      *) command="gcloud iam service-accounts add-iam-policy-binding FIRST_ACCOUNT_OF_THE_CHAIN" ;;
    esac
    echo "#$why"
    echo "$command --role $role --member $member"
  done < <(grep -v '^#' deploy/composer-roles.txt)
  echo "# workloads write their run folders as the Kubernetes account of their pods (Workload Identity of GKE)"
  echo "gcloud storage buckets add-iam-policy-binding $storage_bucket --role roles/storage.objectUser --member" \
    "principal://iam.googleapis.com/projects/CLUSTER_PROJECT_NUMBER/locations/global/workloadIdentityPools/CLUSTER_PROJECT.svc.id.goog/subject/ns/NAMESPACE/sa/default"
}

problems=
check() {
  # what is checked, its command, and what to do if that fails
  local what=$1 advice=$2
  shift 2
  if "$@" >/dev/null 2>"$work/error"; then
    echo "checked: $what"
  else
    problems=1
    echo "problem: $what: $advice ($(head -1 "$work/error"))"
  fi
}

# The roles on the project, of those that every deployment needs; a role that contains them may have been granted instead.
project_roles() {
  local account missing
  account=$(described account)
  if ! gcloud projects get-iam-policy "$project" --flatten bindings --format 'value(bindings.role)' \
    --filter "bindings.members:serviceAccount:$account" >"$work/granted" 2>/dev/null; then
    echo "not checked: the roles of $account on $project, whose policy you may not read"
    return
  fi
  missing=$(grep ' | the project | ' deploy/composer-roles.txt | grep -v ', if ' | sed 's/ |.*//' | grep -vxF -f "$work/granted") || true
  [ -z "$missing" ] || echo "not granted to $account on $project:" $missing "(--roles with --environment prints the commands)"
}

checks() {
  check "the bucket of run folders, $storage_bucket" "make it, or see whether you may read it" \
    gcloud storage buckets describe "$storage_bucket" --project "$project"
  check "the secret of the connection ml_metrics_warehouse" "without it, no row is recorded" \
    gcloud secrets describe airflow-connections-ml_metrics_warehouse --project "$project"
  project_roles
  echo "not checked: other roles of $(described account) (--roles lists them), the values of secrets, the dataset, whether"
  echo "  clusters answer from there, and whether the wheel of ml-metrics is installed (update --update-pypi-package): without"
  echo "  it the triggerer cannot report runs by hand that hang (docs/composer.md, Overdue runs, and the triggerer)"
}

# --- packages: only those that Composer does not have ------------------------------------------------------------------

packages() {
  grep -vE '^(#|$)' deploy/requirements-composer.txt | tr 'A-Z' 'a-z' | sort
}

update_packages() {
  described package | sort >"$work/installed"
  if [ -z "$(packages | comm -23 - "$work/installed")" ]; then
    echo "packages: up to date"
    return
  fi
  echo "packages: installing those of deploy/requirements-composer.txt ..."
  # each is added, and those of others stay
  run gcloud composer environments update "$environment" "${where[@]}" \
    $(packages | comm -23 - "$work/installed" | sed 's/^/--update-pypi-package /') ||
    die "packages were not changed, and nothing else: $AGAIN"
}

# --- settings: overrides of Airflow's configuration; Composer rejects AIRFLOW__* as environment variables -----------

wanted_settings() {
  local setting address concurrency
  address=$(described address)
  cat <<SETTINGS
secrets-backend=airflow.providers.google.cloud.secrets.secret_manager.CloudSecretManagerBackend
secrets-backend_kwargs={"connections_prefix":"airflow-connections","variables_prefix":"airflow-variables","sep":"-"}
ml_metrics-cluster=kubernetes
ml_metrics-storage_root=$storage_root
ml_metrics-deployment=${deployment:-$environment}
ml_metrics-dataset=$dataset
ml_metrics-channels=$channels
ml_metrics-outbox=$outbox
SETTINGS
  # Composer has triggerers, and a workload that waits in one holds no worker; who has decided otherwise keeps that
  described setting | grep '^operators-default_deferrable=' >/dev/null || echo "operators-default_deferrable=True"
  # otherwise the links in messages would lead to localhost
  [ -z "$address" ] || echo "ml_metrics-dashboard_url=${address%/}/ml-metrics"
  [ -z "$clusters" ] || echo "ml_metrics-clusters=/home/airflow/gcs/dags/ml_metrics_clusters.yaml"
  for setting in ${settings[@]+"${settings[@]}"}; do echo "ml_metrics-$setting"; done
  concurrency=$(described concurrency)
  [ -z "$concurrency" ] || unless_set celery-worker_concurrency "$concurrency"
  described timeout
}

# Settings of Airflow for all DAGs: a value that somebody has chosen stays.
unless_set() {
  described setting | grep -q "^$1=" || echo "$1=$2"
}

compare_settings() {
  local refused
  described setting | sort >"$work/settings"
  # of a key that is given twice, the last value counts
  wanted_settings | python3 -c 'import sys; print("".join(dict((line.split("=", 1)[0], line) for line in sys.stdin).values()), end="")' |
    sort >"$work/wanted"
  comm -23 "$work/wanted" "$work/settings" >"$work/missing"
  refused=$(python3 deploy/composer_limits.py "$work/environment.json" <"$work/missing")
  [ -z "$refused" ] || die "the service would refuse these settings; nothing was changed:
$refused"
}

update_settings() {
  local missing
  missing=$(cat "$work/missing")
  if [ -z "$missing" ]; then
    echo "settings: up to date"
    return
  fi
  echo "settings: changing"
  echo "$missing" | sed 's/^/  /'
  # values contain commas, so | is the separator
  run gcloud composer environments update "$environment" "${where[@]}" \
    --update-airflow-configs "^|^$(echo "$missing" | paste -sd'|' -)" ||
    die "settings were not changed, and no file was copied: $AGAIN"
}

# --- files ----------------------------------------------------------------------------------------------------------

# The package is copied to dags/ and to plugins/: only dags/ reaches every component that parses DAGs, and the web server
# loads the dashboard only from plugins/. An ignore file keeps Airflow from parsing the package as DAG files.
stage_files() {
  local package
  mkdir -p "$work/dags/include" "$work/code"
  cp dags/*.py "$work/dags/"
  tar -C plugins --exclude __pycache__ -cf - ml_metrics ml_metrics_telemetry | tar -C "$work/code" -xf -
  tar -C include --exclude __pycache__ -cf - metric_configs templates | tar -C "$work/dags/include" -xf -
  for package in "$work"/code/* "$work/dags/include"; do echo '*' >"$package/.airflowignore"; done
  # an example would start every hour, and fail
  grep -rl 'gcr\.io/your-project/' "$work/dags" --include '*.py' --include '*.yaml' --include '*.json' --include '*.jsonnet' |
    while read -r example; do
      echo "left out: ${example#"$work"/} is an example: its image is in your-project"
      rm "$example"
    done || true
  [ -z "$clusters" ] || cp "$clusters" "$work/dags/ml_metrics_clusters.yaml"
  # the tag of this DAG tells from outside which state the DAG processor has
  state=deployed-$(cd "$work" && find code dags -type f | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cksum | cksum | cut -d' ' -f1)
  echo "doctor.tags.add('$state')" >>"$work/dags/ml_digest.py"
}

copy_files() {
  local bucket folder package
  COPYING=1
  bucket=$(described bucket)
  bucket=${bucket%/dags}
  stage_files
  # code before its users; these folders belong to this project, so files that it no longer has are deleted
  for folder in plugins dags; do
    for package in ml_metrics_telemetry ml_metrics; do
      run gcloud storage rsync --recursive --delete-unmatched-destination-objects "$work/code/$package" "$bucket/$folder/$package"
    done
  done
  for folder in dags/include/templates dags/include/metric_configs; do
    run gcloud storage rsync --recursive --delete-unmatched-destination-objects "$work/$folder" "$bucket/$folder"
  done
  run gcloud storage cp "$work/dags/include/.airflowignore" "$bucket/dags/include/"
  run gcloud storage cp plugins/ml_metrics_plugin.py "$bucket/plugins/"
  run gcloud storage cp "$work"/dags/*.* "$bucket/dags/"
  COPYING=
}

# Components copy the bucket at their own pace, file by file: this waits until the DAG processor has read this state.
wait_for_copies() {
  local poll
  echo "files: in $(described bucket); waiting until Airflow has read them (minutes) ..."
  for poll in $(seq 20); do
    if gcloud composer environments run "$environment" "${where[@]}" dags list -- --columns dag_id,tags --output json \
      >"$work/listed" 2>"$work/error" && grep -q "$state" "$work/listed"; then
      echo "files: Airflow has read $state; other components may be a few minutes later"
      return
    fi
    ! grep -q PERMISSION_DENIED "$work/error" || break
    sleep "${WAIT_SECONDS:-15}"
  done
  echo "deploy/composer.sh: the files are in the bucket, but Airflow does not list $state: $(tail -1 "$work/error")" >&2
  echo "  see: gcloud composer environments run $environment ${where[*]} dags list-import-errors" >&2
  exit 1
}

describe
case "$(described bucket)" in gs://?*/dags) ;; *) die "the environment '$environment' has no bucket for DAGs" ;; esac
case "$(described image)" in
  composer-3-airflow-3.0.* | composer-3-airflow-3.1.[0-6]-*) die "'$(described image)' is older than Airflow 3.1.7: upgrade the environment" ;;
  composer-3-airflow-3.*) ;;
  *) die "the environment '$environment' is '$(described image)', not Composer 3 with Airflow 3" ;;
esac
case "$(described state)" in
  RUNNING) ;;
  *) [ -n "$files_only" ] || die "the environment '$environment' is $(described state), and takes one update at a time: run this again when it is RUNNING" ;;
esac
if [ -n "$roles" ]; then
  grants
  exit 0
fi
[ -n "$files_only" ] || compare_settings
[ -z "$dry_run" ] || [ -n "$files_only" ] || checks
if [ -z "$files_only" ]; then
  update_packages
  update_settings
fi
copy_files
[ -n "$dry_run" ] || wait_for_copies
if [ -n "$problems" ]; then
  echo "deploy/composer.sh: solve the problems above first" >&2
  exit 1
fi
