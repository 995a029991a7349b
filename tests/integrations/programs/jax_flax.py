"""Flax NNX, optax and Orbax: twelve steps, a save at every sixth, and a restore of the last one."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax import nnx

from ml_metrics_telemetry import Training
from ml_metrics_telemetry.jax import recorded

with Training() as training:
    with training.preparation():
        model = nnx.Linear(4, 1, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.01), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, x, y):
        def loss_of(model):
            return jnp.mean((model(x) - y) ** 2)

        loss, gradients = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, gradients)
        return loss

    train_step = recorded(train_step, training)
    folder = Path(os.environ["ML_METRICS_RUN_DIR"]).absolute() / "checkpoints"
    with ocp.CheckpointManager(folder, logger=training.recorder) as checkpoints:
        for step in range(12):
            x = jax.random.normal(jax.random.key(step), (8, 4))
            loss = train_step(model, optimizer, x, x.sum(1, keepdims=True))
            training.log(step, loss=loss)
            if step in {5, 11}:
                checkpoints.save(step, args=ocp.args.StandardSave(nnx.state(model)))
        checkpoints.wait_until_finished()
        checkpoints.restore(11, args=ocp.args.StandardRestore(nnx.state(model)))
