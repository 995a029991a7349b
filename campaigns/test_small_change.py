"""`ml-metrics compare TEST` of images that differ by a planted sleep of 3 % in a program that trains.

Each trial is a whole run through Airflow and the local cluster: a network learns handwritten digits, and each step of
the candidate sleeps for 3 % of its time. The machine is as it is, with whatever else it does, and the comparison takes
as many runs as the noise asks for. An image of the same program under another name must not be worse; by the errors
that a comparison promises, it is in one of 40, as it is better in one of 40.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_home import Home

PERCENT = float(os.environ.get("ML_METRICS_SLEEP_PERCENT", "0"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not PERCENT, reason="`make campaign NAME=experiments` plays this; test_compare.py compares by two runs"
    ),
]
METRIC, MOST_RUNS = "step_time_ratio_p50", "60"
MOST_SECONDS = 2 * 3600
BASE, SAME, SLOWER = "app:1", "app:1-again", "app:2"

TRAIN = '''
"""Train a network with one hidden layer on handwritten digits, and write the time and the loss of each step.

Other users of the host change the time of a step by 5 % and more, from run to run. So a second network, whose code
stays the same, does each step as well, and the metric is the ratio of both times.
"""
import json, os, time
import numpy as np
from sklearn.datasets import load_digits

SLEEP = {sleep}  # of the time of a step
STEPS, BATCH, HIDDEN, RATE = 200, 1536, 1024, 0.5

data, random = load_digits(), np.random.default_rng(1)
images, labels = data.data / 16, data.target


class Network:
    def __init__(self):
        weights = np.random.default_rng(2)
        self.first = weights.normal(0, np.sqrt(2 / images.shape[1]), (images.shape[1], HIDDEN))
        self.second = weights.normal(0, np.sqrt(2 / HIDDEN), (HIDDEN, 10))

    def train(self, images, labels):
        hidden = np.maximum(0, images @ self.first)
        scores = hidden @ self.second
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(shares[rows, labels]).mean())
        shares[rows, labels] -= 1
        shares /= len(labels)
        back = (shares @ self.second.T) * (hidden > 0)
        self.second -= RATE * hidden.T @ shares
        self.first -= RATE * images.T @ back
        return loss


network, reference = Network(), Network()
with open(os.path.join(os.environ["MODEL_DIR"], "steps.jsonl"), "w") as log:
    for step in range(STEPS):
        batch = random.integers(len(labels), size=BATCH)
        started = time.perf_counter()
        reference.train(images[batch], labels[batch])
        between = time.perf_counter()
        loss = network.train(images[batch], labels[batch])
        if SLEEP:
            time.sleep(SLEEP * (time.perf_counter() - between))
        ratio = (time.perf_counter() - between) / (between - started)
        print(json.dumps({{"step": step, "step_time_ratio": ratio, "loss": loss}}), file=log)
'''


@pytest.fixture
def images(home: Home) -> None:
    """What the images contain, each in a folder of its name: the local cluster has no images of its own."""
    folder = home.shared / "images"
    for name, sleep in ((BASE, 0.0), (SAME, 0.0), (SLOWER, PERCENT / 100)):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.py").write_text(TRAIN.format(sleep=sleep))
    home.add_test(
        "trained",
        image=BASE,
        command=["sh", "-c", 'exec python3 "$IMAGES/$IMAGE/train.py"'],
        env={"IMAGES": str(folder), "IMAGE": f"{{{{ params.image or '{BASE}' }}}}", "OMP_NUM_THREADS": "1"},
        by_hand=["image"],
        timeout="15m",
        goodput={"enabled": False},
        metric_collection_config={"default_aggregation_strategies": ["p50", "final"]},
    )


def compared(home: Home, candidate: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Compare a candidate with the base, print what came of it, and return the exit code and the answer.

    The command prints each run as it ends.
    """
    journal, started = folder / f"{candidate.replace(':', '-')}.jsonl", time.monotonic()
    done = subprocess.run(
        [
            *("ml-metrics", "compare", "trained", "--base", BASE, "--candidate", candidate),
            *("--metric", METRIC, "--max-runs", MOST_RUNS, "--journal", str(journal), "--json"),
        ],
        env=home.environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert done.returncode in {0, 1}, "the last lines above state why"
    found: dict[str, Any] = json.loads(done.stdout)["metrics"][METRIC]
    print(f"{candidate}: {done.stdout} in {time.monotonic() - started:.0f} s")
    return done.returncode, found


@pytest.mark.usefixtures("images")
def test_a_small_change_is_worse_and_the_same_program_is_not(home: Home, tmp_path: Path) -> None:
    code, slower = compared(home, SLOWER, tmp_path)
    assert (code, slower["verdict"]) == (1, "worse"), slower["reason"]
    assert slower["certainty"] >= 0.95
    assert slower["interval"][0] > 0
    code, same = compared(home, SAME, tmp_path)
    assert code == 0
    assert same["verdict"] in {"equivalent", "undecided"}
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("trained") == [], "no trial is a baseline"
        trials = warehouse.runs.newest("trained", 2 * int(MOST_RUNS), trials=True)
        losses = [
            metric.value
            for run in trials
            for metric in warehouse.metrics.of_run(run.place)
            if metric.metric == "loss_final"
        ]
    assert len(losses) == len(trials) == slower["runs"] + same["runs"]
    assert max(losses) < 0.5, "each trial has learned"
