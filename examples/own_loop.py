"""Record a PyTorch loop of your own: which digits were hard for a small network?

python examples/own_loop.py
"""

import mlflow
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import actionflow

EPOCHS = 5

torch.manual_seed(0)
pixels, labels = map(torch.tensor, load_digits(return_X_y=True))
# Every sample carries its place in the data set, so shuffling and splitting do not matter.
digits = TensorDataset(pixels.float() / 16, labels, torch.arange(len(labels)))
train, val = random_split(digits, [1400, len(digits) - 1400])

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

with mlflow.start_run(run_name="own-loop") as run, actionflow.Recorder() as recorder:
    for _ in range(EPOCHS):
        model.train()
        for images, targets, sample_ids in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            recorder.add(sample_ids, logits, targets, split="train")
            nn.functional.cross_entropy(logits, targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for images, targets, sample_ids in DataLoader(val, batch_size=256):
                recorder.add(sample_ids, model(images), targets, split="val")
        recorder.end_epoch()

print(actionflow.query("hardest", run.info.run_id, k=5).to_pandas().to_string(index=False))
