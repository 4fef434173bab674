"""`planted_recompiles.py FUNCTION`: calls a compiled function with arguments that change in one way."""

import sys

import torch

torch.set_num_threads(1)


class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(50))
        self.calls = 0

    def forward(self, x, scale):  # planted
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x * scale  # planted


class Counting(Deep):
    def forward(self, x, scale):
        self.calls += 1  # planted
        return super().forward(x, scale) + self.calls


def calls(arguments, kind=Deep, **options):
    model = torch.compile(kind(), backend="eager", **options)
    for rows, scale, dtype in arguments:
        model(torch.ones(rows, 8, dtype=dtype).float(), scale)


def sizes():
    calls([(rows, 2, torch.float32) for rows in range(2, 9)], dynamic=False)


def values():
    calls([(4, text, torch.float32) for text in (True, 2, 3.5, 4.5, 5.5, 6.5)], dynamic=False)


def attributes():
    calls([(4, 2, torch.float32)] * 7, Counting)


def sizes_made_dynamic():
    calls([(rows, 2, torch.float32) for rows in range(2, 30)])


def the_same():
    calls([(4, 2, torch.float32)] * 200)


def near_misses():
    the_same()
    sizes_made_dynamic()


globals()[sys.argv[1]]()
