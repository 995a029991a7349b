#!/bin/sh
# What has to be there before Airflow's processes start: the tables, and the password of the one user.
# Run again, it changes nothing that is right.
set -eu

airflow db migrate

umask 077
python3 - <<'PYTHON'
import json, os, pathlib
file = pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
file.write_text(json.dumps({"admin": os.environ["ADMIN_PASSWORD"]}))
PYTHON
