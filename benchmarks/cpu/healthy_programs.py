"""Healthy programs for `healthy.py`, with no fault planted: `healthy_programs.py NAME`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def torch() -> None:
    """An image classifier on two threads, its data in memory."""
    import torch as t

    t.manual_seed(0)
    nn = t.nn
    model = nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(48, 96, 3, padding=1),
        nn.BatchNorm2d(96), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(96 * 16, 10),
    )  # fmt: skip
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images, labels = t.randn(2_048, 3, 32, 32), t.randint(0, 10, (2_048,))
    for _ in range(2):
        for batch in t.randperm(len(images)).split(128):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])  # clocked
            optimizer.zero_grad(set_to_none=True)  # clocked
            loss.backward()  # clocked
            optimizer.step()  # clocked


def scipy() -> None:
    """Linear algebra, an initial value problem, and a filter."""
    import numpy as np
    from scipy import integrate, linalg, signal

    numbers = np.random.default_rng(0)
    for _ in range(3):
        matrix = numbers.normal(size=(900, 900))
        linalg.svd(matrix)  # clocked
        linalg.eigh(matrix @ matrix.T)  # clocked

    def lorenz(_: float, at: np.ndarray) -> tuple[float, float, float]:
        x, y, z = at
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    integrate.solve_ivp(lorenz, (0, 60), (1.0, 1.0, 1.0), rtol=1e-8)  # clocked
    wave = numbers.normal(size=4_000_000)
    signal.welch(signal.sosfiltfilt(signal.butter(6, 0.1, output="sos"), wave))  # clocked


def polars() -> None:
    import numpy as np
    import polars as pl

    numbers = np.random.default_rng(0)
    rows = 3_000_000
    for _ in range(4):
        frame = pl.DataFrame({"key": numbers.integers(0, 50_000, rows), "value": numbers.normal(size=rows)})
        other = pl.DataFrame({"key": np.arange(50_000), "group": numbers.integers(0, 50, 50_000)})
        joined = frame.lazy().join(other.lazy(), on="key").with_columns(rank=pl.col("value").rank().over("group"))
        summed = joined.group_by("group").agg(pl.col("value").mean(), pl.col("rank").max(), pl.col("value").quantile(0.9).alias("high"))
        summed.collect()  # clocked


def sqlite() -> None:
    """A library's loans: rows in transactions, an index, and questions."""
    import random
    import sqlite3

    chooser = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "library.db")
        database.execute("create table loans (id integer primary key, reader integer, book integer, day integer)")
        for day in range(300):
            with database:
                rows = [(chooser.randrange(5_000), chooser.randrange(20_000), day) for _ in range(2_500)]
                database.executemany("insert into loans (reader, book, day) values (?, ?, ?)", rows)  # clocked
        database.execute("create index by_reader on loans (reader, day)")
        for _ in range(6):
            database.execute(  # clocked
                "select book, count(*) c, count(distinct reader) from loans group by book having c > 2 order by c desc"
            ).fetchall()
            database.execute(  # clocked
                "select a.reader, count(*) from loans a join loans b on a.reader = b.reader and b.day = a.day + 1 group by a.reader"
            ).fetchall()


def pillow() -> None:
    """Thumbnails of large pictures, on a pool of two processes."""
    from concurrent.futures import ProcessPoolExecutor

    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        list(pool.map(thumbnail, range(24), [folder] * 24))


def thumbnail(number: int, folder: str) -> None:
    import numpy as np
    from PIL import Image, ImageFilter

    pixels = np.random.default_rng(number).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((3_000, 2_000), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(3))  # clocked
    file = Path(folder) / f"{number}.jpg"
    picture.save(file, quality=92)  # clocked
    with Image.open(file) as opened:
        opened.thumbnail((400, 400))  # clocked
        opened.save(file.with_suffix(".png"))


def notebook() -> None:
    """A notebook of an analysis, run in a Jupyter kernel."""
    from jupyter_client.manager import start_new_kernel

    cells = [
        "import numpy as np, pandas as pd\nnumbers = np.random.default_rng(0)",
        "table = pd.DataFrame({'city': numbers.integers(0, 300, 2_000_000), 'rent': numbers.gamma(3, 300, 2_000_000)})",
        "summary = table.groupby('city')['rent'].describe()\nsummary.head()",
        "boot = [table['rent'].sample(frac=0.2, random_state=n).median() for n in range(60)]\nnp.percentile(boot, [5, 95])",
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.hist(table['rent'], 200)",
    ]
    manager, client = start_new_kernel(kernel_name="python3")
    for cell in cells:
        reply = client.execute_interactive(cell, timeout=120, output_hook=lambda message: None)
        if reply["content"]["status"] != "ok":
            raise SystemExit(reply["content"])
    client.stop_channels()
    manager.shutdown_kernel()


def compiling() -> None:
    """make with two jobs, of C++ with the standard library's larger headers."""
    import subprocess

    unit = "#include <map>\n#include <regex>\n#include <string>\n#include <vector>\nint of_%d(const std::string &text) {\n"
    unit += '  std::regex word("[a-z]+%d");\n  std::map<std::string, std::vector<int>> found;\n  std::smatch match;\n'
    unit += "  if (std::regex_search(text, match, word)) found[match.str()].push_back(%d);\n  return (int)found.size();\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            (Path(folder) / f"unit{number}.cpp").write_text(unit % (number, number, number))
        objects = " ".join(f"unit{number}.o" for number in range(4))
        (Path(folder) / "Makefile").write_text(f"all: {objects}\n%.o: %.cpp\n\tg++ -O2 -c $< -o $@\n")
        subprocess.run(["make", "-s", "-j2", "-C", folder], check=True)


def video() -> None:
    """ffmpeg: a made-up picture, scaled and encoded."""
    import subprocess

    source = ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30:duration=60"]
    subprocess.run(["ffmpeg", "-v", "error", *source, "-vf", "scale=960:540", "-c:v", "mpeg4", "-f", "null", "-"], check=True)


def main() -> None:
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
