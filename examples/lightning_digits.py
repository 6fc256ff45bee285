"""Record a Lightning training: one callback, nothing else changes.

pip install lightning
python examples/lightning_digits.py
"""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import actionflow
from actionflow.integrations.lightning import ActionCallback


class Classifier(LightningModule):
    """A module as you have it: it knows nothing of recording."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images):
        """Logits of the ten digits."""
        return self.layers(images)

    def training_step(self, batch, batch_idx):
        """The loss of a batch."""
        images, targets = batch
        return nn.functional.cross_entropy(self(images), targets)

    def validation_step(self, batch, batch_idx):
        """Log the loss of a batch."""
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


seed_everything(0)
pixels, labels = map(torch.tensor, load_digits(return_X_y=True))
digits = TensorDataset(pixels.float() / 16, labels)
train, val = random_split(digits, [1400, len(digits) - 1400])

recording = ActionCallback()
trainer = Trainer(max_epochs=5, callbacks=[recording], logger=False, enable_checkpointing=False)
trainer.fit(Classifier(), DataLoader(train, batch_size=64, shuffle=True), DataLoader(val, batch_size=256))

print(actionflow.query("hardest", recording.run_id, k=5).to_pandas().to_string(index=False))
