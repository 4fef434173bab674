"""What recording costs a GPU program, everything on: stacks, device activity, stall sampling.

    python benchmarks/gpu_overhead.py --output overhead.json [--pairs 5] [--workloads launch gpu decode]

Each turn runs the workloads in one process alone and in one under `aiflame record`, whichever came second last time first. The cost
is the median of the ratios of their median steps (`ratio`). Where the machine's own speed changes from process to process, two more tell
what is ours: `at_equal_speed`, with both medians divided by what a fixed piece of Python took between the steps, and `fastest_tenth`,
of the steps that the machine disturbed least. A last run with `--gpu-sampling off` tells what sampling adds.
"""

from __future__ import annotations

from gpu_common import Report, median_of, parse, recorded, run, scratch

TARGETS = {"launch": 1.10, "gpu": 1.01, "decode": 1.12}
COLUMNS = ("alone", "recorded", "ratio", "at_equal_speed", "fastest_tenth")


def main() -> None:
    options = parse(__doc__, TARGETS, pairs=5)
    report = Report(options.output)
    program = options.program(*options.workloads)
    times: dict[str, dict[str, list[float]]] = {name: {column: [] for column in COLUMNS} for name in options.workloads}
    with scratch() as folder:
        ways = {"alone": program, "recorded": recorded(program, folder / "p.aiflame", "--no-seal")}
        for turn in range(options.pairs):
            found = {}
            for way in list(ways) if turn % 2 == 0 else reversed(ways):
                done = run(ways[way])
                if done.status:
                    report.fail(f"{way}, turn {turn}", done)
                found[way] = done.results
            for name, columns in times.items():
                if name in found["alone"] and name in found["recorded"]:
                    for column, value in _compared(found["alone"][name], found["recorded"][name]).items():
                        columns[column].append(value)
            report.put("workloads", {name: _told(name, columns) for name, columns in times.items() if columns["ratio"]})
            print(turn, {name: [round(ratio, 3) for ratio in columns["ratio"]] for name, columns in times.items()}, flush=True)
        done = run(recorded(program, folder / "p.aiflame", "--no-seal", "--gpu-sampling", "off"))
        report.put("without stall sampling, ms, one run", {name: result["ms"] for name, result in done.results.items()})
    report.end()


def _compared(alone: dict[str, float], recorded: dict[str, float]) -> dict[str, float]:
    ratio = recorded["ms"] / alone["ms"]
    return {
        "alone": alone["ms"],
        "recorded": recorded["ms"],
        "ratio": ratio,
        "at_equal_speed": ratio * alone["probe_ms"] / recorded["probe_ms"],
        "fastest_tenth": recorded["tenth_ms"] / alone["tenth_ms"],
    }


def _told(name: str, columns: dict[str, list[float]]) -> dict[str, object]:
    target = TARGETS.get(name)
    ratio = median_of(columns["ratio"])
    met = None if target is None else ratio["median"] <= target  # type: ignore[operator]
    return {
        "alone_ms": median_of(columns["alone"]),
        "recorded_ms": median_of(columns["recorded"]),
        "ratio": ratio,
        "at_equal_speed": median_of(columns["at_equal_speed"]),
        "fastest_tenth": median_of(columns["fastest_tenth"]),
        "target": target,
        "met": met,
    }


if __name__ == "__main__":
    main()
