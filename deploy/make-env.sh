#!/bin/sh
# Writes .env for docker-compose.yaml: new secrets, and the number of tasks that suits the machine. An existing .env is not changed.
set -eu
cd "$(dirname "$0")/.."

if [ -e .env ]; then
  echo ".env exists and was not changed" >&2
  exit 0
fi

random() {
  head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'
}

# a Fernet key is 32 bytes in URL-safe base64
fernet() {
  head -c 32 /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_'
}

# the containers may have less than this machine
machine=$(docker info --format '{{.NCPU}} {{.MemTotal}}' 2>/dev/null | awk 'NF == 2 { print $1, int($2 / 1048576) }') || true
# shellcheck disable=SC2086  # two numbers, or none
tasks=$(sh deploy/tasks-at-once.sh $machine)

umask 077
sed -e "s|^AIRFLOW_PARALLELISM=.*|AIRFLOW_PARALLELISM=$tasks|" \
    -e "s|^AIRFLOW_TASKS_MEMORY=.*|AIRFLOW_TASKS_MEMORY=$((tasks * 300 + 1500))m|" \
    -e "s|^POSTGRES_PASSWORD=.*|POSTGRES_PASSWORD=$(random)|" \
    -e "s|^AIRFLOW_DB_PASSWORD=.*|AIRFLOW_DB_PASSWORD=$(random)|" \
    -e "s|^ML_METRICS_DB_PASSWORD=.*|ML_METRICS_DB_PASSWORD=$(random)|" \
    -e "s|^AIRFLOW_JWT_SECRET=.*|AIRFLOW_JWT_SECRET=$(random)|" \
    -e "s|^AIRFLOW_API_SECRET_KEY=.*|AIRFLOW_API_SECRET_KEY=$(random)|" \
    -e "s|^AIRFLOW_FERNET_KEY=.*|AIRFLOW_FERNET_KEY=$(fernet)|" \
    -e "s|^REDIS_PASSWORD=.*|REDIS_PASSWORD=$(random)|" \
    -e "s|^ADMIN_PASSWORD=.*|ADMIN_PASSWORD=$(random | cut -c 1-24)|" \
    .env.example >.env.new
mv .env.new .env
echo "wrote .env; the password of Airflow's user admin is ADMIN_PASSWORD in it"
