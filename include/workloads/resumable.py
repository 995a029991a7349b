"""Train a small linear model that survives faults: checkpoints in files, one host or several, no framework.

Every step is computed from its number alone: a training that restores its checkpoint rightly repeats the same losses.
Host 0 averages the gradients of all hosts over a socket, and saves; the others continue from its state. Each start
continues after the newest checkpoint, which with `--emergency_every` may be a copy that a neighbour kept. A host that
hears nothing of the others for `--hang_seconds` ends with an error, so that all are started again. With `--elastic`,
host 0 goes on without them, and takes them in again when they come back.

It writes the goodput log and `train.jsonl`, a loss for each step, to the folder `--model_dir`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import threading
import time
import zlib
from pathlib import Path

from ml_metrics_telemetry import GoodputRecorder

FEATURES, EXAMPLES, RATE = 8, 32, 0.05
TRUTH = [0.5 * (-1) ** number * (number + 1) for number in range(FEATURES)]
State = dict  # the number of the next step, and the weights


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

    def __init__(self, host: int, count: int, first: str, port: int, options: argparse.Namespace) -> None:
        self.host, self.first, self.port = host, first, port
        self.patience, self.elastic = options.hang_seconds, options.elastic
        self.files, self.others = [], count - 1
        if host == 0 and count > 1:
            self.server = socket.create_server(("", port))

    def join(self, state: State) -> State:
        """Return the state that all hosts continue from: that of host 0."""
        if self.host > 0:
            self._connect()
            return json.loads(self._read(self.files[0]))
        while len(self.files) < self.others:
            self.server.settimeout(self.patience)
            self._welcome(state)
        return state

    def take_in(self, state: State) -> None:
        """Let hosts join that have come back."""
        if self.host > 0 or not self.elastic or len(self.files) == self.others:
            return
        self.server.settimeout(0)
        try:
            self._welcome(state)
            print(f"step {state['step']}: grown to {1 + len(self.files)} hosts", flush=True)
        except BlockingIOError:
            pass  # nobody has come

    def mean(self, values: list[float]) -> list[float]:
        """Return the mean of what all hosts have. Raises OSError if one of them is gone or does not answer."""
        if self.host > 0:
            self._write(self.files[0], values)
            return json.loads(self._read(self.files[0]))
        every = [values]
        for file in list(self.files):
            try:
                every.append(json.loads(self._read(file)))
            except OSError:
                if not self.elastic:
                    raise
                file.detach()
                self.files.remove(file)
                print(f"shrunk to {1 + len(self.files)} hosts", flush=True)
        values = [sum(column) / len(every) for column in zip(*every, strict=True)]
        for file in self.files:
            self._write(file, values)
        return values

    def _welcome(self, state: State) -> None:
        one = self.server.accept()[0]
        one.settimeout(self.patience)
        self.files.append(one.makefile("rw"))
        self._write(self.files[-1], state)

    def _connect(self) -> None:
        until = time.monotonic() + self.patience
        while True:
            try:
                one = socket.create_connection((self.first, self.port), self.patience)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                self.files = [one.makefile("rw")]
                return

    @staticmethod
    def _write(file, value) -> None:  # noqa: ANN001
        file.write(json.dumps(value) + "\n")
        file.flush()

    @staticmethod
    def _read(file) -> str:  # noqa: ANN001
        if not (line := file.readline()):
            raise ConnectionError("another host is gone")
        return line


class Checkpoints:
    """The checkpoints of a host: in the storage, which host 0 writes, and copies on the disks of all hosts."""

    def __init__(self, folder: Path, host: int, count: int, options: argparse.Namespace) -> None:
        self.host, self.options, self.saving = host, options, None
        self.saved = folder / "checkpoints" / "checkpoint.json"
        own, neighbour = (folder / f"emergency-{one % count}" for one in (host, host + 1))
        self.copies = [own / "own.json", neighbour / f"of-{host}.json"] if options.emergency_every else []
        for file in (self.saved, *self.copies):
            file.parent.mkdir(parents=True, exist_ok=True)

    def newest(self) -> State | None:
        """Return the newest checkpoint that is whole."""
        found = [json.loads(file.read_text()) for file in (self.saved, *self.copies) if file.exists()]
        return max(found, key=lambda state: state["step"], default=None)

    def after(self, state: State, recorder: GoodputRecorder) -> None:
        """Save what is due before a step. A save that fails does not end the training: the next one may succeed."""
        step, options = state["step"], self.options
        if options.emergency_every and step % options.emergency_every == 0:
            for file in self.copies:
                self._write(file, state)
        if self.host == 0 and step % options.save_every == 0:
            with recorder.record_event("save"):
                if self.saving:
                    self.saving.join()
                self.saving = threading.Thread(target=self._write, args=(self.saved, state, options.save_seconds))
                self.saving.start()
                if not options.save_seconds:  # a long save goes on beside the training
                    self.saving.join()

    @staticmethod
    def _write(file: Path, state: State, seconds: float = 0.0) -> None:
        text, new = json.dumps(state), file.with_suffix(".new")
        try:
            with new.open("w") as opened:
                opened.write(text[:40])
                opened.flush()
                time.sleep(seconds)
                opened.write(text[40:])
            new.replace(file)
        except OSError as error:
            print(f"the checkpoint of step {state['step']} was not saved: {error}", flush=True)


def main() -> None:
    """Restore the newest checkpoint, train the steps that are left, and save now and then."""
    options = arguments()
    folder = Path(options.model_dir)
    number = {name: int(os.environ.get(name, "0")) for name in ("JOB_COMPLETION_INDEX", "ML_METRICS_SLICE")}
    count, slices = (int(os.environ.get(f"ML_METRICS_{name}", "1")) for name in ("HOSTS", "SLICES"))
    host = number["ML_METRICS_SLICE"] * count // slices + number["JOB_COMPLETION_INDEX"]
    recorder = GoodputRecorder(os.environ.get("JOB_NAME", "resumable"), logging_enabled=host == 0)
    recorder.record_job_start_time()
    job = os.environ.get("KUBERNETES_JOB_SET") or os.environ.get("KUBERNETES_JOB", "")
    port = 20_000 + zlib.crc32(job.encode()) % 12_000  # below those that systems give to any program
    hosts = Hosts(host, count, os.environ.get("ML_METRICS_FIRST_HOST", "127.0.0.1"), port, options)
    checkpoints = Checkpoints(folder, host, count, options)
    with recorder.record_event("restore"):
        time.sleep(options.restore_seconds)
        state = checkpoints.newest() or {"step": 0, "weights": [0.0] * FEATURES}
        if options.forget_weights and state["step"]:
            state["weights"] = [0.0] * FEATURES  # a mistake on purpose: the steps go on, what was learnt is gone
        state = hosts.join(state)
    print(f"host {host} of {count} starts at step {state['step']}", flush=True)
    with (folder / "train.jsonl").open("a") as log:
        while (step := state["step"]) < options.steps:
            hosts.take_in(state)
            recorder.record_step_start_time(step)
            time.sleep(options.step_seconds)
            gradient, loss = gradient_and_loss(state["weights"], step, host)
            try:
                *gradient, loss = hosts.mean([*gradient, loss])
            except OSError:
                if host == 0 or not options.elastic:
                    raise
                state = hosts.join(state)  # host 0 has gone on without this one
                continue
            weights = [w - RATE * g for w, g in zip(state["weights"], gradient, strict=True)]
            state = {"step": step + 1, "weights": weights}
            if host == 0:
                print(json.dumps({"step": step, "time": time.time(), "loss": loss}), file=log, flush=True)
            checkpoints.after(state, recorder)
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
    parser.add_argument("--save_seconds", type=float, default=0.0, help="how long a save goes on beside the training")
    parser.add_argument("--emergency_every", type=int, default=0, help="steps between copies on the disks of the hosts")
    parser.add_argument("--elastic", action="store_true", help="go on without hosts that do not answer")
    parser.add_argument("--forget_weights", action="store_true", help="restore wrongly, to see that it is found")
    return parser.parse_args()


if __name__ == "__main__":
    main()
