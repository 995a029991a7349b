#!/bin/sh
# Prepares Airflow: creates the tables and the password of the user. It can be run again at any time.
set -eu

airflow db migrate

umask 077
python3 - <<'PYTHON'
import json, os, pathlib
file = pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
file.write_text(json.dumps({"admin": os.environ["ADMIN_PASSWORD"]}))
PYTHON
