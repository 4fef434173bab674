"""The cost of meaning to a training on the CPU, on top of recording: names of layers, autograd's numbers, regions of steps.

    python benchmarks/recording/meaning_cost.py [--pairs 60] [--output benchmarks/results/meaning_cost.json]

Two processes train the same transformer in turns, one recorded with `--no-meaning`, the other without it. The cost is the median of the
ratios of CPU time of neighbouring blocks of steps. `small` is the hard case: a step of a few hundred ops that do next to nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from aiflame.profile.folder.meta import Host

SIZES = {"usual": {"width": 256, "depth": 4, "length": 64, "batch": 4}, "small": {"width": 32, "depth": 4, "length": 8, "batch": 1}}
BLOCK_SECONDS = 0.4


def train(size: str) -> None:
    """Answers each number on stdin with the CPU seconds that so many steps took."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    nn, wanted = torch.nn, SIZES[size]
    width, depth, length, batch = (wanted[name] for name in ("width", "depth", "length", "batch"))
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Embedding(256, width), nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.Linear(width, 256))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    text = torch.randint(0, 256, (batch, length))

    def step() -> None:
        nn.functional.cross_entropy(model(text).flatten(0, 1), text.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for line in sys.stdin:
        begin = time.thread_time()
        for _ in range(int(line)):
            step()
        print(time.thread_time() - begin, flush=True)


@dataclass(slots=True)
class Trainer:
    process: subprocess.Popen[str]

    def seconds(self, steps: int) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def start(size: str, profile: Path, *options: str) -> Trainer:
    recorded = [sys.executable, __file__, "--train", size]
    command = [sys.executable, "-m", "aiflame.cli.main", "record", *options, "-o", str(profile), "--", *recorded]
    return Trainer(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))


def compare(size: str, pairs: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        trainers = [start(size, Path(folder, "plain.aiflame"), "--no-meaning"), start(size, Path(folder, "meaning.aiflame"))]
        try:
            for trainer in trainers:
                trainer.seconds(5)
            steps = max(1, int(BLOCK_SECONDS / (trainers[0].seconds(20) / 20)))
            ratios, plain_ms = [], []
            for pair in range(pairs):
                order = (0, 1) if pair % 2 else (1, 0)
                durations = {which: trainers[which].seconds(steps) for which in order}
                ratios.append(durations[1] / durations[0])
                plain_ms.append(durations[0] / steps * 1e3)
        finally:
            for trainer in trainers:
                trainer.close()
    quarters = statistics.quantiles(ratios, n=4)
    return {
        "step_ms": round(statistics.median(plain_ms), 3),
        "added_percent": round((statistics.median(ratios) - 1) * 100, 2),
        "quartiles_percent": [round((quarters[0] - 1) * 100, 2), round((quarters[2] - 1) * 100, 2)],
        "pairs": pairs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", choices=SIZES)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return
    results = {"machine": asdict(Host.here()), **{size: compare(size, options.pairs) for size in SIZES}}
    text = json.dumps(results, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
