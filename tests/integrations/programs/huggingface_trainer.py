"""The Trainer of Transformers: twelve steps of two accumulated batches, with evaluation and checkpoints at 6 and 12."""

import os

import torch
from transformers import Trainer, TrainingArguments

from ml_metrics_telemetry.huggingface import TrainingCallback


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        found = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": found}


x = torch.randn(96, 4)
data = [{"x": row, "labels": row.sum(0, keepdim=True)} for row in x]
arguments = TrainingArguments(
    os.environ["ML_METRICS_RUN_DIR"] + "/trainer",
    max_steps=12,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    eval_strategy="steps",
    eval_steps=6,
    save_steps=6,
    logging_steps=3,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
)
trainer = Trainer(Model(), arguments, train_dataset=data, eval_dataset=data, callbacks=[TrainingCallback()])
trainer.train()
trainer.evaluate()  # after the job: no time of it
