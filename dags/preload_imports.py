"""Makes Airflow's DAG processor import the pod operator once, instead of each time that it parses a DAG file.

Before the DAG processor forks a process to parse a file, it imports the Airflow modules that the file imports at its
top, and keeps them. `ml_tests.py` cannot import the operator there, because that file is also loaded by tasks that do
not need it. This file has no DAGs, so no task loads it. Without it, each parsing of `ml_tests.py` takes 0.3 s longer
where the DAG processor loads no plugins, as on Cloud Composer; the plugin imports the operator, too.
"""

import airflow.providers.cncf.kubernetes.operators.pod  # noqa: F401
