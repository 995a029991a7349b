"""`airflow standalone` for a laptop: `make up` runs this.

One Airflow of a home runs at a time, because two schedulers would share one SQLite file.
"""

from __future__ import annotations

import os

from one_airflow import choose_port, hold

from ml_metrics.core.airflow_options import airflow_cfg_path, airflow_home

if __name__ == "__main__":
    home = airflow_home()
    with hold(home) as lock:
        address = choose_port(airflow_cfg_path())
        print(f"process {os.getpid()}, {address}", file=lock, flush=True)
        password = home / "simple_auth_manager_passwords.json.generated"
        print(f"Airflow starts on {address}; the password of user admin is in {password}", flush=True)
        from components import main

        main()
