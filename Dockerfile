# One image for every Airflow process and for the local cluster. It holds what the tests of this project ran with, nothing
# newer (docs/decisions/0159), without Google's provider, whose clients are more than half of requirements.lock.
FROM python:3.11-slim

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    UV_SYSTEM_PYTHON=1 \
    UV_NO_CACHE=1 \
    AIRFLOW_HOME=/opt/airflow

# a number that no user of the host is likely to have; group 0, so that a platform that picks the user itself works too
RUN useradd --uid 50000 --gid 0 --create-home airflow

WORKDIR /opt/ml-metrics
COPY requirements/*.lock requirements/
# compiled now: the user of the processes could not keep what Python compiles, and each would do it again for seconds;
# the tests of the packages are a tenth of their size
RUN pip install --require-hashes -r requirements/requirements-uv.lock && \
    uv pip install --require-hashes --compile-bytecode -r requirements/requirements-compose.lock && \
    find /usr/local/lib/python3.11/site-packages -type d -name tests -prune -exec rm -r {} +
# with `--build-arg GOOGLE=yes`: clusters on GKE, buckets, BigQuery
ARG GOOGLE=no
RUN [ "$GOOGLE" = no ] || uv pip install --require-hashes --compile-bytecode -r requirements/requirements.lock
ARG EXECUTOR=LocalExecutor
RUN case "$EXECUTOR" in *Celery*) \
      uv pip install --require-hashes --compile-bytecode -r requirements/requirements-celery.lock;; esac

COPY --chown=50000:0 pyproject.toml setup.py README.md LICENSE ./
COPY --chown=50000:0 packages packages
COPY --chown=50000:0 plugins plugins
COPY --chown=50000:0 dags dags
COPY --chown=50000:0 include include
COPY --chown=50000:0 deploy deploy
# editable: plugins/ is the only copy of ml_metrics and ml_metrics_telemetry, also if a newer one is mounted over it
RUN uv pip install --no-deps --no-build-isolation -e . -e packages/local-kube -e packages/telemetry

# named volumes take over the owner of the folder that they cover
# (the local cluster is user 50001: only it writes to handover and pods, and what it writes is of Airflow's group)
RUN for folder in auth cluster handover logs outbox pods runs; do \
      install -d -o 50000 -g 0 -m 0770 /opt/airflow/$folder; \
    done && chown 50000:0 /opt/airflow && chmod 0710 /opt/airflow && \
    chown 50001:0 /opt/airflow/handover /opt/airflow/pods && chmod 0750 /opt/airflow/handover && chmod 0700 /opt/airflow/pods

USER 50000:0
CMD ["airflow", "version"]
