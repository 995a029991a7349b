"""What the README tells a new user to do, by the user's own Python: `__main__.py` makes the machine for it."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

CHECKOUT, START = Path.cwd(), time.monotonic()
HOME, TESTS = CHECKOUT / ".airflow", CHECKOUT / "include" / "metric_configs"
PATIENCE = 300.0
ADDRESS = re.compile(r"Airflow starts on (http://localhost:\d+);")
HEALTHY = re.compile(r'"(?:scheduler|dag_processor|triggerer)":\{[^{}]*"status":"healthy"')


def main() -> None:
    assert os.geteuid() != 0
    assert " " in str(CHECKOUT)
    say(f"Python {sys.version.split()[0]} as user {os.geteuid()} in {str(CHECKOUT)!r}: make demo")
    demo = run("make", "demo")
    assert "the run is red, and a mail gives the reason" in demo
    assert "the run is green, and a mail reports the recovery" in demo
    of_the_demo(dict(re.findall(r"^The (mail about the \w+ run|chart of the accuracy): +(.*)$", demo, re.MULTILINE)))
    assert "dropped" not in demo, "no dependency of make"
    made_with = run(".venv/bin/python", "-c", "import sys; print(sys.version.split()[0])").strip()
    assert made_with == sys.version.split()[0], made_with
    with suppress(OSError):  # port 8080 is taken already
        Thread(target=ThreadingHTTPServer(("127.0.0.1", 8080), Other).serve_forever, daemon=True).start()
    say("make up")
    log = HOME / "make-up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(["make", "up"], stdout=output, stderr=output, start_new_session=True)
    try:
        beside(up, log)
        say("make up ends")
        os.killpg(up.pid, signal.SIGTERM)
        up.wait(60)
    except BaseException:
        print(log.read_text(errors="replace")[-5000:])
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(up.pid, signal.SIGKILL)
    say("everything is as the README says")


def of_the_demo(files: dict[str, str]) -> None:
    """Look at what `make demo` names at its end: two mails and a chart."""
    broken, recovered, chart = (Path(file).read_text() for file in files.values())
    assert "0.96" in broken
    assert "recovered" in recovered
    for mail in (broken, recovered):
        assert re.search(r"^run +manual__", mail, re.MULTILINE), mail
    assert chart.startswith("<svg")


def beside(up: subprocess.Popen[bytes], log: Path) -> None:
    """Do what a user does in a second terminal."""
    wait_until(lambda: ADDRESS.search(log.read_text()) or up.poll() is not None, "make up names its address")
    found = ADDRESS.search(log.read_text())
    assert found, log.read_text()
    address = found[1]
    assert address != "http://localhost:8080", "another program has that port"
    wait_until(lambda: len(HEALTHY.findall(get(f"{address}/api/v2/monitor/health"))) == 3, f"{address} is healthy")
    say("your own test, beside it")
    chapter = Path("README.md").read_text().split("## Your own test")[1].split("\n## ")[0]
    (file,) = re.findall(r"```yaml\n(.*?)```", chapter, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", chapter, re.DOTALL)
    own = run("bash", "-euc", commands)
    assert all(word in own for word in ("INSUFFICIENT DATA  hello-cpu", "ml-metrics history hello-cpu")), own
    say("a second make up")
    second = subprocess.run(["make", "up"], capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert f"is running already: process {holder()}, {address}" in second.stdout + second.stderr, second
    say("a DAG processor that is alive finds one more test")
    (TESTS / "hello-again.yaml").write_text(file.replace("hello-cpu", "hello-again"))
    wait_until(lambda: "hello-again" in dags(), "the DAG processor has read the second file")
    doctor = run("bash", "-uc", "source .venv/bin/activate; AIRFLOW_HOME=$PWD/.airflow ml-metrics doctor; true")
    assert f"{address}: scheduler, dag_processor, triggerer are healthy" in " ".join(doctor.split()), doctor


class Other(BaseHTTPRequestHandler):
    """Another program that listens on port 8080."""


def holder() -> str:
    return (HOME / "standalone.lock").read_text().split(",")[0].removeprefix("process ")


def dags() -> set[str]:
    with closing(sqlite3.connect(HOME / "airflow.db", timeout=60)) as database:
        return {name for (name,) in database.execute("SELECT dag_id FROM dag")}


def get(address: str) -> str:
    try:
        with urlopen(address, timeout=30) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout[-5000:]}\n{' '.join(command)} ended with {done.returncode}")
    return done.stdout


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain until {what}"
        time.sleep(0.2)


def say(what: str) -> None:
    print(f"new machine, {time.monotonic() - START:.0f} s: {what}", flush=True)


if __name__ == "__main__":
    main()
