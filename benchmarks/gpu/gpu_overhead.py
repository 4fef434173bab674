"""The cost of recording to a GPU program, everything on: stacks, device activity, stall sampling.

    python benchmarks/gpu/gpu_overhead.py --output overhead.json [--pairs 5] [--workloads launch gpu decode] [--cupti | --meaning]

A pair is two processes of the program, one alone and one under `aiflame record`, that live at the same time and take short turns, in
an order of chance: the speed of a shared machine may change by half from one second to the next, and a process that plays twice in a row
finds the device as it left it. So all have the same conditions. The cost in a pair is the median, over its turns, of the ratios of their
median steps (`ratio`); the result is the median over the pairs. `fastest_tenth` is the same for the steps that the machine disturbed least.

Beside them a third process, `floor`: CUPTI by itself, asked for the same records and callbacks, with nothing done in them (gpu_floor.c;
where there is a C compiler). The cost above it is ours, but for stall sampling, which it does without: a fourth process, `unsampled`, is
recorded with `--gpu-sampling off`.

With `--cupti`: the cost of CUPTI with stall sampling, too. `recorded` is CUPTI by itself then, with stall samples, and `unsampled` without.

With `--meaning`: the cost of names of layers, steps and regions, added to a recording without them. Both are recorded at once, and one
process a device is sampled: neither is.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from gpu_common import Options, Player, PlayerEnded, Report, cupti_alone, median_of, parse, recorded, sampled, scratch

TARGETS = {"launch": 1.10, "gpu": 1.01, "decode": 1.12}
TARGETS_OF_MEANING = {"launch": 1.01}
PLAIN = ("--no-meaning", "--no-regions")
UNSAMPLED = ("--gpu-sampling", "off", "--gpu-counters", "off")
BESIDE = ("floor", "floor_fastest_tenth", "unsampled", "unsampled_fastest_tenth", "above_floor")
TURNS = 24
Columns = dict[str, list[float]]
Ways = dict[str, list[str]]
"""Commands by the name of their process: `alone` and `recorded`, and the processes beside these."""


def main() -> None:
    asked = next((argument for argument in sys.argv if argument in {"--meaning", "--cupti"}), "")
    sys.argv = [argument for argument in sys.argv if argument != asked]
    targets = TARGETS_OF_MEANING if asked == "--meaning" else TARGETS
    options = parse(__doc__, targets, pairs=5, seconds=0.15)
    report = Report(options.output)
    times: dict[str, Columns] = {name: defaultdict(list) for name in options.workloads}
    with scratch() as folder:
        program = options.program(*options.workloads)
        ways = {"--meaning": of_meaning, "--cupti": of_cupti}.get(asked, of_recording)(program, folder, options.device == "cuda")
        for number in range(options.pairs):
            for name, turns in pair(options, ways, report, number).items():
                for column, values in turns.items():
                    times[name][column].append(statistics.median(values))
            report.put("workloads", {name: _summary(columns, targets.get(name)) for name, columns in times.items() if columns["ratio"]})
            print(number, {name: [round(ratio, 3) for ratio in columns["ratio"]] for name, columns in times.items()}, flush=True)
    report.end()


def of_recording(program: list[str], folder: Path, on_gpu: bool) -> Ways:
    ways = {
        "alone": program,
        "recorded": recorded(program, folder / "p.aiflame", "--no-seal"),
        "unsampled": recorded(program, folder / "unsampled.aiflame", "--no-seal", *UNSAMPLED),
    }
    floor = cupti_alone(program, folder) if on_gpu else None
    return {**ways, "floor": floor} if floor else ways


def of_cupti(program: list[str], folder: Path, on_gpu: bool) -> Ways:
    floor = cupti_alone(program, folder) if on_gpu else None
    if not floor:
        sys.exit("--cupti needs a GPU, a C compiler and the package nvidia-cuda-cupti")
    return {"alone": program, "recorded": sampled(floor), "unsampled": floor}


def of_meaning(program: list[str], folder: Path, on_gpu: bool) -> Ways:
    return {
        "alone": recorded(program, folder / "plain.aiflame", "--no-seal", *UNSAMPLED, *PLAIN),
        "recorded": recorded(program, folder / "p.aiflame", "--no-seal", *UNSAMPLED),
    }


def pair(options: Options, ways: Ways, report: Report, number: int) -> dict[str, Columns]:
    """The times of each turn; nothing for a pair that did not end well."""
    players = {way: Player(command) for way, command in ways.items()}
    turns: dict[str, Columns] = {name: defaultdict(list) for name in options.workloads}
    chance = random.Random(number)
    ended_early = False
    try:
        for player in players.values():
            player.wait_until_ready()
        for _ in range(TURNS):
            for name, columns in turns.items():
                order = chance.sample(sorted(players), len(players))
                results = {way: players[way].play(name, options.seconds) for way in order}
                columns["alone"].append(results["alone"]["ms"])
                columns["recorded"].append(results["recorded"]["ms"])
                columns["ratio"].append(results["recorded"]["ms"] / results["alone"]["ms"])
                columns["fastest_tenth"].append(results["recorded"]["tenth_ms"] / results["alone"]["tenth_ms"])
                for way in results.keys() - {"alone", "recorded"}:
                    columns[way].append(results[way]["ms"] / results["alone"]["ms"])
                    columns[f"{way}_fastest_tenth"].append(results[way]["tenth_ms"] / results["alone"]["tenth_ms"])
                if "floor" in results:
                    columns["above_floor"].append(results["recorded"]["ms"] / results["floor"]["ms"])
    except (PlayerEnded, BrokenPipeError):
        ended_early = True
    ends = {way: player.end() for way, player in players.items()}
    for way, finished in ends.items():
        if finished.status or ended_early or "floor: " in finished.errors:
            report.fail(f"{way}, pair {number}", finished)
    return {} if ended_early else turns


def _summary(columns: Columns, target: float | None) -> dict[str, object]:
    ratio = median_of(columns["ratio"])
    reached = None if target is None else ratio["median"] <= target  # type: ignore[operator]
    return {
        "alone_ms": median_of(columns["alone"]),
        "recorded_ms": median_of(columns["recorded"]),
        "ratio": ratio,
        "fastest_tenth": median_of(columns["fastest_tenth"]),
        **{column: median_of(columns[column]) for column in BESIDE if columns[column]},
        "target": target,
        "met": reached,
    }


if __name__ == "__main__":
    main()
