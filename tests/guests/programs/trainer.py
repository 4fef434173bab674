"""Trains a tiny model by the Trainer of a package, with our callback; its clock is ours: step 13 takes long, the others do not."""

import os
import sys
import tempfile

import torch

from aiflame import flight

now = [100.0]
flight.time = type("Clock", (), {"monotonic": staticmethod(lambda: now[0]), "monotonic_ns": staticmethod(lambda: int(now[0] * 1e9))})
batches = [0]


def passes():
    batches[0] += 1
    now[0] += 4.0 if batches[0] == 13 else 1.0


def lightning():
    import pytorch_lightning

    class Model(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, number):
            passes()
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    trainer = pytorch_lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[flight.for_lightning()],
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(20, 4)))


def transformers():
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Config(PretrainedConfig):
        model_type = "tiny"

    class Model(PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            self.layer = torch.nn.Linear(4, 1)
            self.post_init()

        def forward(self, x, labels=None):
            passes()
            return {"loss": self.layer(x).sum()}

    chosen = TrainingArguments(
        tempfile.mkdtemp(),
        per_device_train_batch_size=1,
        num_train_epochs=1,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    rows = [{"x": torch.ones(4), "labels": torch.tensor(1)} for _ in range(20)]
    Trainer(Model(Config()), chosen, train_dataset=rows, callbacks=[flight.for_transformers()]).train()


with tempfile.TemporaryDirectory() as ring:
    os.mkdir(f"{ring}/requests")
    with flight.recording_into(ring):
        {"lightning": lightning, "transformers": transformers}[sys.argv[1]]()
    for name in os.listdir(f"{ring}/requests"):
        with open(f"{ring}/requests/{name}") as file:
            print(file.read())
