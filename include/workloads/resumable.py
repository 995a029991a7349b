"""Train a small linear model that survives faults: checkpoints in files, one host or several, no framework.

Every step is computed from its number alone: a training that restores its checkpoint rightly repeats the same losses.
Host 0 averages the gradients of all hosts over a socket, and saves. Each start continues after the newest checkpoint. A
host that hears nothing of the others for `--hang_seconds` ends with an error, so that all are started again.

It writes the goodput log and `train.jsonl`, a loss for each step, to the folder `--model_dir`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import time
import zlib
from pathlib import Path

from ml_metrics_telemetry import GoodputRecorder

FEATURES, EXAMPLES, RATE = 8, 32, 0.05
TRUTH = [0.5 * (-1) ** number * (number + 1) for number in range(FEATURES)]


def gradient_and_loss(weights: list[float], step: int, host: int) -> tuple[list[float], float]:
    """Return the gradient and the loss of a host's batch, which follows from the number of the step."""
    drawn = random.Random(f"{step} {host}")  # noqa: S311
    gradient, loss = [0.0] * FEATURES, 0.0
    for _ in range(EXAMPLES):
        inputs = [drawn.gauss(0, 1) for _ in range(FEATURES)]
        target = sum(w * x for w, x in zip(TRUTH, inputs, strict=True)) + drawn.gauss(0, 0.1)
        error = sum(w * x for w, x in zip(weights, inputs, strict=True)) - target
        loss += error * error / EXAMPLES
        gradient = [g + 2 * error * x / EXAMPLES for g, x in zip(gradient, inputs, strict=True)]
    return gradient, loss


class Hosts:
    """The hosts of a training, which host 0 connects: `mean` waits for all of them."""

    def __init__(self, host: int, count: int, first: str, port: int, patience: float) -> None:
        self.host, self.sockets = host, []
        if host == 0 and count > 1:
            with socket.create_server(("", port)) as server:
                server.settimeout(patience)
                self.sockets = [server.accept()[0] for _ in range(count - 1)]
        elif host > 0:
            self.sockets = [self._connect(first, port, patience)]
        for one in self.sockets:
            one.settimeout(patience)
        self.files = [one.makefile("rw") for one in self.sockets]

    @staticmethod
    def _connect(first: str, port: int, patience: float) -> socket.socket:
        until = time.monotonic() + patience
        while True:
            try:
                return socket.create_connection((first, port), timeout=patience)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def mean(self, values: list[float]) -> list[float]:
        """Return the mean of what all hosts have. Raises OSError if one of them is gone or does not answer."""
        if self.host == 0:
            every = [values, *(self._read(file) for file in self.files)]
            values = [sum(column) / len(every) for column in zip(*every, strict=True)]
        for file in self.files:
            file.write(json.dumps(values) + "\n")
            file.flush()
        return values if self.host == 0 else self._read(self.files[0])

    @staticmethod
    def _read(file) -> list[float]:  # noqa: ANN001
        if not (line := file.readline()):
            raise ConnectionError("another host is gone")
        return json.loads(line)


def main() -> None:
    """Restore the newest checkpoint, train the steps that are left, and save now and then."""
    options = arguments()
    folder = Path(options.model_dir)
    host, count = int(os.environ.get("JOB_COMPLETION_INDEX", "0")), int(os.environ.get("ML_METRICS_HOSTS", "1"))
    recorder = GoodputRecorder(os.environ.get("JOB_NAME", "resumable"), logging_enabled=host == 0)
    recorder.record_job_start_time()
    port = 20_000 + zlib.crc32(os.environ.get("KUBERNETES_JOB", "").encode()) % 20_000
    hosts = Hosts(host, count, os.environ.get("ML_METRICS_FIRST_HOST", "127.0.0.1"), port, options.hang_seconds)
    checkpoint = folder / "checkpoint.json"
    start, weights = 0, [0.0] * FEATURES
    with recorder.record_event("restore"):
        time.sleep(options.restore_seconds)
        if checkpoint.exists():
            saved = json.loads(checkpoint.read_text())
            start, weights = saved["step"], saved["weights"]
            if options.forget_weights:
                weights = [0.0] * FEATURES  # a mistake on purpose: the steps go on, what was learnt is gone
    print(f"host {host} of {count} starts at step {start}", flush=True)
    with (folder / "train.jsonl").open("a") as log:
        for step in range(start, options.steps):
            recorder.record_step_start_time(step)
            time.sleep(options.step_seconds)
            gradient, loss = gradient_and_loss(weights, step, host)
            *gradient, loss = hosts.mean([*gradient, loss])
            weights = [w - RATE * g for w, g in zip(weights, gradient, strict=True)]
            if host == 0:
                print(json.dumps({"step": step, "time": time.time(), "loss": loss}), file=log, flush=True)
            if host == 0 and (step + 1) % options.save_every == 0:
                with recorder.record_event("save"):
                    new = checkpoint.with_suffix(".new")
                    new.write_text(json.dumps({"step": step + 1, "weights": weights}))
                    new.replace(checkpoint)
    recorder.record_job_end_time()
    print(f"host {host} has trained {options.steps} steps", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", default=os.environ.get("MODEL_DIR", "."))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step_seconds", type=float, default=0.2, help="how long a step takes at least")
    parser.add_argument("--save_every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--restore_seconds", type=float, default=0.0, help="how long a restore takes at least")
    parser.add_argument("--hang_seconds", type=float, default=60.0, help="how long to wait for the other hosts")
    parser.add_argument("--forget_weights", action="store_true", help="restore wrongly, to see that it is found")
    return parser.parse_args()


if __name__ == "__main__":
    main()
