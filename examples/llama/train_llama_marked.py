"""The twin of train_llama.py: the same training, with the markers that other tools ask for, placed by hand.

    aiflame record -- python train_llama_marked.py [--markers nvtx|itt]
    aiflame flame --by region

Each step, each phase and each layer, forward and backward, is a region, on the thread that does the work. It is there to compare:
aiflame by itself finds the same parts of train_llama.py as these markers name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import train_llama
from torch import nn

Push = Callable[[str], object]
Pop = Callable[[], object]


def marker(name: str) -> tuple[Push, Pop]:
    if name == "itt":
        return torch.profiler.itt.range_push, torch.profiler.itt.range_pop
    if torch.cuda.is_available():
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    import nvtx

    return nvtx.push_range, nvtx.pop_range


class Marked:
    def __init__(self, push: Push, pop: Pop) -> None:
        self.push, self.pop = push, pop

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    def mark_layers(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            # The embedding is left out backward: its words have no gradient whose arrival would end the region.
            if not name or isinstance(module, nn.ModuleList):
                continue
            module.register_forward_pre_hook(lambda _module, _given, name=name: self._begin(name))
            module.register_forward_hook(lambda _module, _given, _result: self._end())
            if not isinstance(module, nn.Embedding):
                module.register_full_backward_pre_hook(lambda _module, _gradient, name=name: self._begin(name))
                module.register_full_backward_hook(lambda _module, _inputs, _outputs: self._end())

    def _begin(self, name: str) -> None:
        self.push(name)

    def _end(self) -> None:
        self.pop()

    def train(self, training: train_llama.Training) -> float:
        loss = torch.zeros(())
        batches = iter(training.batches)
        for number in range(len(training.batches)):
            with self.region(f"Step.{number}"):
                with self.region("Data loading"):
                    words = next(batches)
                with self.region("Forward"):
                    loss = train_llama.loss_of(training, words)
                with self.region("Backward"):
                    loss.backward()
                with self.region("Optimizer"):
                    nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
                    training.optimizer.step()
                    training.optimizer.zero_grad()
        return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--markers", choices=("nvtx", "itt"), default="nvtx")
    own, arguments = parser.parse_known_args()
    sys.argv[1:] = arguments
    options = train_llama.arguments()
    training = train_llama.prepare(options)
    marked = Marked(*marker(own.markers))
    if not options.compile:  # a compiled model runs no hooks of its layers
        marked.mark_layers(training.model)
    print(f"loss {marked.train(training):.3f}")


if __name__ == "__main__":
    main()
