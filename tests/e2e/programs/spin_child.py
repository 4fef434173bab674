"""The split in a child process: started by multiprocessing spawn or fork, or by subprocess."""

import multiprocessing
import subprocess
import sys
from pathlib import Path

method, library = sys.argv[1], sys.argv[2]
split = str(Path(__file__).with_name("spin_split.py"))


def child(path):
    sys.argv = [split, path]
    exec(compile(Path(split).read_text(), split, "exec"), {"__name__": "split"})


if __name__ == "__main__":
    if method == "subprocess":
        subprocess.run([sys.executable, split, library], check=True)
    else:
        context = multiprocessing.get_context(method)
        process = context.Process(target=child, args=(library,))
        process.start()
        process.join()
        sys.exit(process.exitcode)
