"""Writes `by_tensorflow/`, with the writers that live on TensorFlow: its own two, Keras', Flax' and CLU's.

pip install tensorflow-cpu==2.21.0 clu==0.0.12 flax==0.12.8 tensorboard "setuptools<80"; python write_with_tensorflow.py
"""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf
from clu import metric_writers
from flax.metrics.tensorboard import SummaryWriter as FlaxWriter

HERE = Path(__file__).parent / "by_tensorflow"
VALUES = [0.5, 1.25, float("nan"), 1e-30, float("inf"), -0.0, 3.1415927, 6e4, 0.1, -7.0]


def tf2() -> None:
    writer = tf.summary.create_file_writer(str(HERE / "tf2"))
    with writer.as_default():
        for step, value in enumerate(VALUES):
            tf.summary.scalar("loss", value, step=step)
            for kind in (tf.float64, tf.float32, tf.float16, tf.bfloat16):
                tf.summary.scalar(f"of/{kind.name}", tf.constant(value, kind), step=step)
            for kind in (tf.int32, tf.int64, tf.uint8):
                tf.summary.scalar(f"of/{kind.name}", tf.constant(step, kind), step=step)
        tf.summary.text("note", "at the end", step=9)
        tf.summary.histogram("weights", np.arange(20.0), step=9)
        tf.summary.image("picture", np.zeros((1, 4, 4, 3)), step=9)
    writer.close()


def tf1() -> None:
    with tf.compat.v1.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(HERE / "tf1"))
        for step, value in enumerate(VALUES):
            both = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag in ("loss", "accuracy")]
            writer.add_summary(tf.compat.v1.Summary(value=both), step)
        writer.close()


def by_keras() -> None:
    chance = np.random.default_rng(1)
    inputs = chance.random((48, 4), np.float32)
    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    tensorboard = keras.callbacks.TensorBoard(HERE / "keras", update_freq=2, histogram_freq=1)
    model.fit(
        inputs,
        inputs.sum(axis=1) > 2,
        validation_split=0.25,
        epochs=3,
        batch_size=12,
        verbose=0,
        callbacks=[tensorboard],
    )


def flax() -> None:
    writer = FlaxWriter(HERE / "flax")
    for step, value in enumerate(VALUES):
        writer.scalar("loss", value, step)
    writer.hparams({"learning_rate": 0.1})
    writer.flush()
    writer.close()


def clu() -> None:
    alone = metric_writers.SummaryWriter(str(HERE / "clu"))
    usual = metric_writers.create_default_writer(str(HERE / "clu_default"), asynchronous=True)
    for writer in (alone, usual):
        for step, value in enumerate(VALUES):
            writer.write_scalars(step, {"loss": jnp.float32(value), "learning_rate": 0.1 / (step + 1), "epoch": step})
        writer.write_texts(9, {"note": "at the end"})
        writer.write_hparams({"learning_rate": 0.1, "name": "x"})
        writer.flush()
        writer.close()


if __name__ == "__main__":
    for write in (tf2, tf1, by_keras, flax, clu):
        write()
