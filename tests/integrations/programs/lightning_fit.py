"""Lightning: epochs of six steps, with validation and a checkpoint at the end of each; or a continuation from that."""

import os
import sys

import lightning as L
import torch

from ml_metrics_telemetry.lightning import TrainingCallback


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(x), y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


x = torch.randn(48, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=8)
folder = os.environ["ML_METRICS_RUN_DIR"] + "/lightning"
checkpoint = L.pytorch.callbacks.ModelCheckpoint(folder, filename="last", enable_version_counter=False)
trainer = L.Trainer(
    max_epochs=int(sys.argv[1]),
    accelerator="cpu",
    default_root_dir=folder,
    log_every_n_steps=3,
    logger=False,
    enable_progress_bar=False,
    callbacks=[TrainingCallback(), checkpoint],
)
trainer.fit(Model(), loader, loader, ckpt_path=f"{folder}/last.ckpt" if sys.argv[2:] else None)
