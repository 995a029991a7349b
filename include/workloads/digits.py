"""Train a small neural network on the handwritten digits of scikit-learn.

A complete training program in one file, as the image of a test contains it. It writes TensorBoard scalars for training
and evaluation, the goodput log and a telemetry stream to the folder `--model_dir`. The accuracy is about 0.93 after one
of `--train_epochs`, and above 0.97 after ten.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits
from tensorboard.summary import Writer

from ml_metrics_telemetry import GoodputRecorder, JsonLinesMetricHandler, configure, get_stream, local_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

HIDDEN_UNITS = 256
BATCH_SIZE = 32
MOMENTUM = 0.9
DECAY = 0.8
"""The factor of the learning rate after each epoch."""
TEST_IMAGES = 360


class Network:
    """One hidden layer, trained by stochastic gradient descent with momentum."""

    def __init__(self, inputs: int, classes: int, rng: np.random.Generator) -> None:
        self.weights = [
            rng.normal(0, np.sqrt(2 / inputs), (inputs, HIDDEN_UNITS)),
            np.zeros(HIDDEN_UNITS),
            rng.normal(0, np.sqrt(2 / HIDDEN_UNITS), (HIDDEN_UNITS, classes)),
            np.zeros(classes),
        ]
        self.velocity = [np.zeros_like(weight) for weight in self.weights]

    def probabilities(self, images: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the hidden layer and the probability of each class."""
        hidden = np.maximum(0, images @ self.weights[0] + self.weights[1])
        scores = hidden @ self.weights[2] + self.weights[3]
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)

    def train(self, images: NDArray[np.float64], labels: NDArray[np.int64], learning_rate: float) -> float:
        """Train one step, and return the loss of the batch before it."""
        hidden, probabilities = self.probabilities(images)
        rows = np.arange(len(labels))
        loss = float(-np.log(probabilities[rows, labels]).mean())
        error = probabilities.copy()
        error[rows, labels] -= 1
        error /= len(labels)
        hidden_error = (error @ self.weights[2].T) * (hidden > 0)
        gradients = [images.T @ hidden_error, hidden_error.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
        for layer, gradient in enumerate(gradients):
            self.velocity[layer] = MOMENTUM * self.velocity[layer] - learning_rate * gradient
            self.weights[layer] += self.velocity[layer]
        return loss

    def accuracy(self, images: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
        """Return the share of images that are classified correctly."""
        return float((self.probabilities(images)[1].argmax(axis=1) == labels).mean())


def main() -> None:
    """Train, evaluate after each epoch, and write the results."""
    options = arguments()
    folder = local_folder(options.model_dir)  # what is written there by path is uploaded if the folder is a bucket
    recorder = GoodputRecorder(os.environ.get("JOB_NAME", "digits"), "goodput", logging_enabled=True)
    configure(JsonLinesMetricHandler())
    stream = get_stream("digits")
    recorder.record_job_start_time()

    recorder.record_training_preparation_start_time()
    train_images, train_labels, test_images, test_labels = digits()
    rng = np.random.default_rng(options.seed)
    network = Network(train_images.shape[1], 10, rng)
    recorder.record_training_preparation_end_time()

    train_log, test_log = Writer(str(folder / "train")), Writer(str(folder / "validation"))
    step = 0
    for epoch in range(options.train_epochs):
        started, losses = time.perf_counter(), []
        learning_rate = options.learning_rate * DECAY**epoch
        for batch in batches(len(train_labels), rng):
            recorder.record_step_start_time(step)
            losses.append(network.train(train_images[batch], train_labels[batch], learning_rate))
            step += 1
        accuracy = network.accuracy(test_images, test_labels)
        stream.add_value("images_per_second", len(train_labels) / (time.perf_counter() - started))
        train_log.add_scalar("loss", float(np.mean(losses)), epoch)
        train_log.add_scalar("learning_rate", learning_rate, epoch)
        test_log.add_scalar("epoch_sparse_categorical_accuracy", accuracy, epoch)
        progress = f"epoch {epoch + 1}/{options.train_epochs}"
        print(f"{progress}: loss {np.mean(losses):.4f}, accuracy {accuracy:.4f}", flush=True)
    train_log.close()
    test_log.close()
    recorder.record_job_end_time()
    recorder.flush()


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the same images for training and for testing every time."""
    data = load_digits()
    order = np.random.default_rng(1).permutation(len(data.target))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    images = data.data / 16
    return images[train], data.target[train], images[test], data.target[test]


def batches(count: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield every image once, in random order, in batches."""
    order = rng.permutation(count)
    for start in range(0, count, BATCH_SIZE):
        yield order[start : start + BATCH_SIZE]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", default=os.environ.get("MODEL_DIR", "model"))
    parser.add_argument("--train_epochs", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
