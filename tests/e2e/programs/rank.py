"""A rank of a job: works for a while of its own choice, and prints how long. Its command may name other work instead."""

import json
import os
import signal
import sys
import time


def own_work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


rank = int(os.environ["PMI_RANK"])
began = time.thread_time_ns()
own_work(0.1 * (1 + 2 * rank))
if f"kill:{rank}" in sys.argv:
    os.kill(os.getppid(), signal.SIGKILL)  # the recorder
    os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps({"rank": rank, "pid": os.getpid(), "cpu_ns": time.thread_time_ns() - began, "recorded": "AIFLAME_PROFILE" in os.environ}))
