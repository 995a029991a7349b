"""Writes one folder of `by_others/`, with the writer that it is named after. Runs on Python 3.6 to 3.11.

Each writer has an environment of its own (`pip install` what its name states, with protobuf<3.20 for the old ones):

    python write_with_others.py tensorflow-1.4.1
"""

import sys
import time
from pathlib import Path
from unittest.mock import Mock

HERE = Path(__file__).parent / "by_others"
STEPS = 120
"""Enough for a tag to be read in columns."""
LONG_TAG = "ray/tune/info/learner/" + "/".join(["default_policy"] * 40)
"""More than 512 bytes."""


def value(step: int) -> float:
    return (step * 7919 % 1000) / 8 - 40


def tensorflow_1(folder: Path) -> None:
    import numpy as np
    import tensorflow as tf

    with tf.Graph().as_default() as graph, tf.Session() as session:
        loss = tf.placeholder(tf.float32, [], "given")
        tf.summary.scalar("loss", loss)
        tf.summary.scalar(LONG_TAG, loss * 2)
        tf.summary.histogram("weights", tf.ones([3]) * loss)
        tf.summary.image("picture", tf.zeros([1, 4, 4, 3]))
        tf.summary.audio("sound", tf.zeros([1, 8]), 8000)
        tf.summary.text("note", tf.constant("at the end"))
        tf.summary.tensor_summary("vector", tf.ones([2]))
        merged, rare = tf.summary.merge_all(), tf.summary.scalar("rare", loss)
        writer = tf.summary.FileWriter(str(folder), graph)
        writer.add_meta_graph(tf.train.export_meta_graph(graph=graph))
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 0)
        for step in range(STEPS):
            fetched = merged if step % 40 == 0 else rare
            writer.add_summary(session.run(fetched, {loss: value(step)}), step)
            both = [tf.Summary.Value(tag=tag, simple_value=value(step)) for tag in ("global_step/sec", "accuracy")]
            writer.add_summary(tf.Summary(value=both), step + 2**31)
        writer.add_run_metadata(tf.RunMetadata(), "step 1", 1)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.CHECKPOINT, checkpoint_path="x"), 9)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="negative step", simple_value=1.5)]), -5)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="no step", simple_value=np.float32(0.1))]))
        writer.close()


def contrib_summary(folder: Path) -> None:
    import tensorflow as tf

    tf.enable_eager_execution()
    writer = tf.contrib.summary.create_file_writer(str(folder))
    with writer.as_default(), tf.contrib.summary.always_record_summaries():
        for step in range(STEPS):
            tf.contrib.summary.scalar("loss", value(step), step=step)
        tf.contrib.summary.histogram("weights", tf.ones([3]), step=1)
        tf.contrib.summary.generic("tensor", tf.ones([2]), step=1)


def estimator(folder: Path) -> None:
    import tensorflow as tf

    def batches() -> tuple:
        return tf.constant([1.0, 2.0]), tf.constant([0.0, 1.0])

    def model(features: object, labels: object, mode: str) -> object:
        weight = tf.get_variable("weight", [])
        loss = tf.reduce_mean((features * weight - labels) ** 2)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    config = tf.estimator.RunConfig(model_dir=str(folder), save_summary_steps=2, log_step_count_steps=3)
    for _ in range(2):
        trained = tf.estimator.Estimator(model, config=config)
        trained.train(batches, steps=10)
        trained.evaluate(batches, steps=1)


def tensorboardx(folder: Path) -> None:
    import numpy as np
    from tensorboardX import SummaryWriter

    old = folder.name == "tensorboardX-1.4"
    writer = SummaryWriter(str(folder))
    for step in range(STEPS):
        writer.add_scalar("loss", value(step), step)
        writer.add_scalar(LONG_TAG, value(step), step)
    writer.add_scalar("negative step", 1.5, -5)
    writer.add_scalar("no step", 0.1)
    writer.add_scalar("large step", 0.1, 2**40)
    writer.add_scalars("both", {"train": 1.0, "eval": 2.0}, 9)
    writer.add_histogram("weights", np.arange(20.0), 9)
    writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), 9)
    writer.add_text("note", "at the end", 9)
    writer.add_pr_curve("curve", np.array([0, 1, 1, 0]), np.array([0.1, 0.9, 0.4, 0.6]), 9)
    if not old:
        writer.add_custom_scalars({"board": {"chart": ["Multiline", ["loss"]]}})
    if hasattr(writer, "add_hparams"):
        writer.add_hparams({"learning_rate": 0.1}, {"best": 0.97})
    writer.close()
    time.sleep(1.1)  # the name of the file contains the second
    again = SummaryWriter(str(folder), **({} if old else {"purge_step": 100}))
    for step in range(100, 130):
        again.add_scalar("loss", -value(step), step)
    again.close()


def mxboard(folder: Path) -> None:
    for name in ("mxnet", "mxnet.ndarray", "mxnet.context", "mxnet.symbol", "mxnet.gluon"):  # not needed for scalars
        sys.modules[name] = Mock(__version__="1.5.0", __path__=[])
    from mxboard.event_file_writer import EventFileWriter
    from mxboard.proto.event_pb2 import Event
    from mxboard.proto.summary_pb2 import Summary

    writer = EventFileWriter(str(folder))
    for step in range(STEPS):
        summary = Summary(value=[Summary.Value(tag="loss", simple_value=value(step))])
        writer.add_event(Event(wall_time=1.79e9 + step, step=step, summary=summary))
    writer.close()


def tensorboard_logger(folder: Path) -> None:
    from tensorboard_logger import Logger

    logger = Logger(str(folder), flush_secs=1)
    for step in range(STEPS):
        logger.log_value("loss", value(step), step)
    logger.log_histogram("weights", [1.0, 2.0], 1)


def ray_tune(folder: Path) -> None:
    from ray.tune.logger import TBXLogger

    logger = TBXLogger({"learning_rate": 0.1, "nested": {"depth": 2}}, str(folder))
    for step in range(STEPS):
        logger.on_result(
            {"timesteps_total": step * 1000, "training_iteration": step, "episode_reward_mean": value(step),
             "info": {LONG_TAG: value(step), "histogram": [1, 2, 3], "done": False}, "config": {}}
        )  # fmt: skip
    logger.close()


def ray_tune_callback(folder: Path) -> None:
    from ray.tune.experiment import Trial
    from ray.tune.logger import TBXLoggerCallback

    logger = TBXLoggerCallback()
    trial = Trial("trainable", config={"learning_rate": 0.1}, stub=True)
    trial.init_local_path = lambda: None
    type(trial).local_path = str(folder)
    logger.log_trial_start(trial)
    for step in range(STEPS):
        result = {"training_iteration": step, "loss": value(step), LONG_TAG: value(step), "config": {}}
        logger.log_trial_result(step, trial, result)
    logger.log_trial_end(trial)


def lightning(folder: Path) -> None:
    from lightning.pytorch.loggers import TensorBoardLogger

    logger = TensorBoardLogger(str(folder), name="", version="")
    logger.log_hyperparams({"learning_rate": 0.1, "name": "x"}, {"best": 0.9})
    for step in range(STEPS):
        logger.log_metrics({"train_loss": value(step), "epoch": step // 10}, step)
    logger.finalize("success")


def stable_baselines3(folder: Path) -> None:
    from stable_baselines3.common.logger import Figure, TensorBoardOutputFormat  # noqa: F401

    writer = TensorBoardOutputFormat(str(folder))
    for step in range(STEPS):
        written = {"rollout/ep_rew_mean": value(step), "time/fps": step, "note": "text"}
        writer.write(written, dict.fromkeys(written, ()), step * 2048)
    writer.close()


def torch(folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for first in (0, 100):
        with SummaryWriter(str(folder), purge_step=first or None, filename_suffix=f".{first}") as writer:
            for step in range(first, first + STEPS):
                writer.add_scalar("old style", value(step), step)
                writer.add_scalar("new style", value(step), step, new_style=True)
                writer.add_scalar("double", value(step) / 3, step, new_style=True, double_precision=True)
                writer.add_scalar(LONG_TAG, value(step), step)


WRITERS = {
    "tensorflow": tensorflow_1,
    "contrib_summary": contrib_summary,
    "estimator": estimator,
    "tensorboardX": tensorboardx,
    "mxboard": mxboard,
    "tensorboard_logger": tensorboard_logger,
    "ray_tune": ray_tune,
    "ray_tune_callback": ray_tune_callback,
    "lightning": lightning,
    "stable_baselines3": stable_baselines3,
    "torch": torch,
}

if __name__ == "__main__":
    WRITERS[sys.argv[1].partition("-")[0]](HERE / sys.argv[1])
