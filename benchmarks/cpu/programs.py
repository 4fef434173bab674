"""Five real programs for `peers.py`, the same work in each run: `programs.py NAME UNITS [--cprofile FILE | --torch-profiler FILE]`."""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PORT = 8_917
CONNECTIONS = 8
NODE = "autograd::engine::evaluate_function: "


def training(units: int, torch_profile: Path | None = None) -> None:
    """A GPT-2 with random weights. One thread, so that profilers of Python's threads see all of it."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, n_positions=128, vocab_size=5_000))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 5_000, (units, 4, 96))

    def steps() -> None:
        for batch in tokens:
            loss = model(input_ids=batch, labels=batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    if torch_profile is None:
        steps()
        return
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        steps()
    torch_profile.write_text(json.dumps(times_of_ops(profiler)))


def times_of_ops(profiler: torch.profiler.profile) -> dict[str, float]:
    """Microseconds in each op itself; those in a node of the backward pass under its name: `AddmmBackward0`."""
    took: dict[str, float] = {}
    for event in profiler.events():
        if event.name.startswith("aten::"):
            name, around = event.name, event.cpu_parent
            while around is not None:
                name = around.name.removeprefix(NODE) if around.name.startswith(NODE) else name
                around = around.cpu_parent
            took[name] = took.get(name, 0.0) + event.self_cpu_time_total
    return took


def pandas(units: int) -> None:
    """Sales by customer and day: joins, groups, windows, texts, files."""
    import io

    import numpy as np
    import pandas as pd

    numbers = np.random.default_rng(0)
    rows = 60_000
    for _ in range(units):
        sales = pd.DataFrame(
            {
                "customer": numbers.integers(0, 3_000, rows),
                "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(numbers.integers(0, 365, rows), unit="D"),
                "price": numbers.gamma(2.0, 20.0, rows).round(2),
                "code": pd.Series(numbers.integers(0, 500, rows)).map("item-{:04d}".format),
            }
        )
        customers = pd.DataFrame({"customer": range(3_000), "region": numbers.choice(list("NESW"), 3_000)})
        joined = sales.merge(customers, on="customer")
        daily = joined.groupby(["region", "day"])["price"].agg(["sum", "mean", "count"])
        daily["sum"].unstack("region").rolling(14, min_periods=1).mean().describe()
        joined["number"] = joined["code"].str.slice(5).astype(int)
        joined.groupby("customer")["price"].apply(lambda prices: prices.nlargest(3).mean())  # clocked
        joined.pivot_table(index="number", columns="region", values="price", aggfunc="median")
        text = io.StringIO()
        joined.head(15_000).to_csv(text, index=False)
        text.seek(0)
        pd.read_csv(text, parse_dates=["day"]).sort_values(["customer", "day"]).drop_duplicates("customer")


def uvicorn(units: int) -> None:
    """A small service under load from a process of its own, which ends it when all answers have come."""
    import asyncio

    import uvicorn as uvicorn_package

    shelf = {str(number): {"title": f"book {number}", "price": number % 37, "tags": ["a", "b"]} for number in range(500)}

    async def application(scope: dict[str, str], receive: Callable[[], object], send: Callable[[object], object]) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        matching = sorted((b for b in shelf.values() if b["price"] == int(path[1:]) % 37), key=lambda b: str(b["title"]))  # clocked
        body = json.dumps({"path": path, "found": matching}).encode()  # clocked
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": body})  # type: ignore[misc]

    config = uvicorn_package.Config(application, port=PORT, log_level="warning", loop="asyncio", http="h11", lifespan="off")
    server = uvicorn_package.Server(config)

    async def served() -> None:
        load = await asyncio.create_subprocess_exec(sys.executable, __file__, "load", str(units))

        async def ends() -> None:
            await load.wait()
            server.should_exit = True

        ending = asyncio.create_task(ends())
        await server.serve()
        await ending

    asyncio.run(served())


def load(units: int) -> None:
    """`units` thousands of requests, each on the next connection of several that are kept open; at random moments if JITTER_MS says so."""
    import asyncio

    longest_s = float(os.environ.get("JITTER_MS", "0")) / 1_000

    async def client(number: int) -> None:
        for _ in range(500):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
                break
            except OSError:
                await asyncio.sleep(0.02)
        for request in range(number, units * 1_000, CONNECTIONS):
            if longest_s:
                await asyncio.sleep(random.uniform(0, longest_s))
            writer.write(b"GET /%d HTTP/1.1\r\nHost: here\r\nAccept: application/json\r\n\r\n" % request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    async def clients() -> None:
        await asyncio.gather(*map(client, range(CONNECTIONS)))

    asyncio.run(clients())


def pytest(units: int) -> None:
    """The tests that networkx brings of its algorithms on graphs: a subpackage for each unit."""
    import networkx
    import pytest as pytest_package

    suites = ("bipartite", "centrality", "flow", "isomorphism", "connectivity", "shortest_paths", "community", "tree", "traversal")
    algorithms = Path(networkx.__file__).parent / "algorithms"
    chosen = [str(algorithms / suite / "tests") for suite in suites[:units]]
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        pytest_package.main(["-q", "-p", "no:cacheprovider", "--basetemp", folder, "--no-header", "--tb=no", *chosen])


def scikit_learn(units: int) -> None:
    """Texts and tables: vectors, a forest, boosting, a grid search, clusters."""
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.datasets import make_classification
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    words = [f"word{number}" for number in range(3_000)]
    for unit in range(units):
        chooser = random.Random(unit)
        texts = [" ".join(chooser.choices(words, k=60)) for _ in range(1_500)]
        vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2).fit_transform(texts)
        LogisticRegression(max_iter=60).fit(vectors, np.arange(len(texts)) % 3)
        table, label = make_classification(3_000, 20, n_informative=8, random_state=unit)
        RandomForestClassifier(25, random_state=unit).fit(table, label).predict(table)  # clocked
        GradientBoostingClassifier(n_estimators=20, random_state=unit).fit(table, label)  # clocked
        search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1, 10]}, cv=5)
        search.fit(table, label)
        KMeans(12, n_init=3, random_state=unit).fit(table)


@contextmanager
def traced(file: Path | None) -> Iterator[None]:
    """With cProfile; of each function its own time, and that of the C functions which it called, as these have no Python frame."""
    if file is None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.create_stats()
        file.write_text(json.dumps(_with_c_functions(profile.stats)))  # type: ignore[attr-defined,arg-type]


Place = tuple[str, int, str]
Numbers = tuple[int, int, float, float]


def _with_c_functions(stats: dict[Place, tuple[int, int, float, float, dict[Place, Numbers]]]) -> list[tuple[str, int, str, float]]:
    own: dict[Place, float] = {}
    for place, (_, _, self_s, _, callers) in stats.items():
        if place[0] != "~":
            own[place] = own.get(place, 0.0) + self_s
            continue
        for caller, (_, _, part_s, _) in callers.items():
            if caller[0] != "~":
                own[caller] = own.get(caller, 0.0) + part_s
    return [(*place, seconds) for place, seconds in own.items()]


PROGRAMS: dict[str, Callable[[int], None]] = {
    "training": training,
    "pandas": pandas,
    "uvicorn": uvicorn,
    "pytest": pytest,
    "scikit-learn": scikit_learn,
    "load": load,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("units", type=int)
    parser.add_argument("--cprofile", type=Path)
    parser.add_argument("--torch-profiler", type=Path)
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    with traced(options.cprofile):
        if options.torch_profiler is not None:
            training(options.units, options.torch_profiler)
        else:
            PROGRAMS[options.program](options.units)


if __name__ == "__main__":
    main()
