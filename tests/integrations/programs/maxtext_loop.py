"""A loop in the manner of MaxText: everything comes from the config, which refuses unknown keys with ValueError."""

import os

import jax
import jax.numpy as jnp

from ml_metrics_telemetry.jax import recorded
from ml_metrics_telemetry.maxtext import from_config

KEYS = {
    "run_name": "llama-tiny",
    "base_output_directory": os.environ["ML_METRICS_RUN_DIR"] + "/out",
    "steps": 12,
    "checkpoint_period": 6,
    "enable_goodput_recording": True,
}


class HyperParameters:
    def __getattr__(self, name):
        if name not in KEYS:
            raise ValueError(f"Requested key {name}, not in config")
        return KEYS[name]


config = HyperParameters()
with from_config(config) as training:
    train_step = recorded(jax.jit(lambda weights, x: weights - 0.1 * x), training)
    weights = jnp.ones(4)
    for step in range(config.steps):
        weights = train_step(weights, jnp.full(4, step * 0.01))
        training.log(step, {"learning/loss": weights.sum()})
        if step and step % config.checkpoint_period == 0:
            with training.save(step):
                jnp.save(os.environ["ML_METRICS_RUN_DIR"] + f"/{step}.npy", weights)
