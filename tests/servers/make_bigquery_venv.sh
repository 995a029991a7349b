#!/bin/sh
# Makes .venv-bigquery/: a stand-in for BigQuery (local-bigquery), which needs Python 3.13 and packages that do not fit
# beside Airflow's. Run it once; the tests start the server from there. It works without the internet.
#
# local-bigquery requires a DuckDB that has no extension wheels yet, so DuckDB is held at the newest one that has them,
# and the three extensions are put in place by hand: by itself DuckDB would download them at the first query.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv-bigquery
uv=$(command -v uv || echo .venv/bin/uv)
python=$(ls "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13.*/bin/python3.13 2>/dev/null | tail -n 1 || true)
python=${python:-python3.13}

exec 9> "$venv.lock"  # two test processes may begin at once
flock 9

if [ ! -e "$venv/ready" ]; then
    "$uv" venv --quiet --clear --python "$python" "$venv"
    echo 'duckdb==1.5.5' > "$venv/override.txt"
    "$uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --override "$venv/override.txt" \
        local-bigquery==0.4.0 duckdb-extensions==1.5.5 duckdb-extension-icu==1.5.5 duckdb-extension-ducklake==1.5.5 \
        duckdb-extension-spatial==1.5.5
    touch "$venv/ready"
fi
"$venv/bin/python" -c '
import duckdb_extensions
for name in ("icu", "ducklake", "spatial"):
    duckdb_extensions.import_extension(name)
'
