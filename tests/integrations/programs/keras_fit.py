"""Keras on the JAX backend: `fit` of two epochs of six steps, twice, with evaluation and checkpoints."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

from ml_metrics_telemetry import Training
from ml_metrics_telemetry.keras import TrainingCallback

with Training() as training:
    with training.preparation():
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
    y = x.sum(1, keepdims=True)
    checkpoint = keras.callbacks.ModelCheckpoint(os.environ["ML_METRICS_RUN_DIR"] + "/checkpoint.keras")
    for _ in range(2):
        callbacks = [TrainingCallback(training), checkpoint]
        model.fit(x, y, epochs=2, batch_size=8, validation_data=(x, y), callbacks=callbacks, verbose=0)
