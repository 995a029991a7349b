#!/bin/sh
# Prints how many tasks Airflow should run at once: four for each core, but no more than memory allows, and at least two.
#
#   sh deploy/tasks-at-once.sh [CORES MEMORY_IN_MB]
#
# Without numbers, those of this machine count; with Docker, those of the machine of its containers, which may be smaller.
# docs/scaling.md gives the reasons. `ml-metrics doctor` knows the same rule (plugins/ml_metrics/airflow/doctor.py).
set -eu

TASKS_PER_CORE=4
TASK_MB=300
AIRFLOW_MB=2000

cores=${1:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
if [ $# -gt 1 ]; then
  memory=$2
elif [ -r /proc/meminfo ]; then
  memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
else
  memory=$(($(sysctl -n hw.memsize 2>/dev/null || echo 8589934592) / 1048576))
fi

tasks=$((cores * TASKS_PER_CORE))
fit=$(((memory - AIRFLOW_MB) / TASK_MB))
[ "$tasks" -le "$fit" ] || tasks=$fit
[ "$tasks" -ge 2 ] || tasks=2
echo "$tasks"
