"""A loop of its own, which continues from step 5."""

import time

from ml_metrics_telemetry import Training

with Training() as training:
    with training.preparation():
        time.sleep(0.02)
    with training.restore(5):
        time.sleep(0.02)
    for step, batch in training.steps(range(12), first=5):
        time.sleep(0.01)
        training.log(step, loss=batch / 2)
        if step in {9, 14}:
            with training.evaluation():
                time.sleep(0.02)
            with training.save(step):
                time.sleep(0.02)
