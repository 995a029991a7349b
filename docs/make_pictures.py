"""Take the pictures of the dashboard in docs/images: of `ml-metrics demo --fleet`, in a real Airflow and Chromium.

    python docs/make_pictures.py

They differ a little from machine to machine, and by the day: look at each before you commit it.
"""

# ruff: noqa: E402, INP001  (a script that names the folders of its imports first)
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT / "plugins"), str(PROJECT / "tests")]

from airflow_home import Home
from browser import PAGE_MILLISECONDS, chromium, logged_in
from ml_metrics.ui.dashboard.links import ServerLinks
from ml_metrics.warehouse import open_warehouse, sqlite_address
from standalone_airflow import api_server

SHIFTED = "resnet50-train-v5p"
SIZE, TALL = {"width": 1280, "height": 760}, {"width": 1280, "height": 900}


def main() -> None:
    with TemporaryDirectory() as folder:
        home = Home.make(Path(folder, "airflow"))
        environment = {**os.environ, "AIRFLOW_HOME": str(home.path)}
        subprocess.run([sys.executable, "-m", "ml_metrics.ui.cli", "demo", "--fleet"], env=environment, check=True)
        made = home.path / "ml_metrics" / "demo-fleet"
        for name in ("runs", "warehouse.db"):
            (made / name).rename(home.path / "ml_metrics" / name)
        with open_warehouse(sqlite_address(str(home.path / "ml_metrics" / "warehouse.db"))) as warehouse:
            (first_bad, *_) = warehouse.incidents.all_open()[SHIFTED].run_keys
            newest = warehouse.runs.newest(SHIFTED, 1)[0].uuid
            warehouse.incidents.acknowledge("vit-large-train-h100", by="otto", note="the new data set")
        links = ServerLinks()
        pages = {
            "tests": "",
            "inbox": links.inbox(),
            "incident": links.inbox(test=SHIFTED, run=first_bad, act="accept"),
            "test": links.test(SHIFTED),
            "run": links.run(newest, SHIFTED),
            "fleet": "fleet",
        }
        with api_server(home) as airflow, chromium() as browser:
            page = logged_in(browser, airflow.url, airflow.token, viewport=SIZE).new_page()
            page.set_default_navigation_timeout(PAGE_MILLISECONDS)
            page.goto(airflow.url)
            page.get_by_role("link", name="ML Metrics").click()
            page.frame_locator("iframe").get_by_role("heading", name="Tests", exact=True).wait_for()
            for name, address in pages.items():
                page.set_viewport_size(SIZE if name != "run" else TALL)  # with the curves
                page.frames[-1].goto(f"{airflow.url}/ml-metrics/{address}", wait_until="networkidle")
                page.screenshot(path=PROJECT / "docs" / "images" / f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
