"""A notebook's kernel: cells, their output, an interrupted one, a display, the kernel's face, and its end."""

import queue

from jupyter_client.manager import start_new_kernel

CELLS = (
    "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(24)",
    "import threading; t = threading.Thread(target=fib, args=(20,)); t.start(); t.join(); print('joined')",
    "import subprocess; subprocess.run(['echo', 'from a child'], capture_output=True).stdout",
    "%time_nothing",
    "1 / 0",
    "import signal; signal.getsignal(signal.SIGPROF), signal.getsignal(signal.SIGINT).__name__, sorted(signal.pthread_sigmask(0, []))",
    "import asyncio; await asyncio.sleep(0.1); 'awaited'",
)
manager, client = start_new_kernel(startup_timeout=60)


def run(code: str, interrupt: bool = False) -> list[str]:
    """Returns the output of the cell. The kernel may send a line in several pieces: they are joined."""
    asked = client.execute(code)
    said: list[str] = []
    printing = False
    while True:
        try:
            message = client.get_iopub_msg(timeout=60)
        except queue.Empty:
            return [*said, "no answer"]
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            if printing:
                said[-1] += content["text"]
            else:
                said.append(content["text"])
            if interrupt and "\n" in said[-1]:
                manager.interrupt_kernel()
                interrupt = False
        elif kind == "execute_result":
            said.append(content["data"]["text/plain"])
        elif kind == "error":
            said.append(f"{content['ename']}: {content['evalue']}")
        elif kind == "status" and content["execution_state"] == "idle":
            return said
        printing = kind == "stream"


for cell in CELLS:
    print(cell.splitlines()[0], "->", run(cell))
print("interrupted ->", run("print('begun', flush=True)\nwhile True: fib(15)", interrupt=True))
print("after ->", run("fib(10)"))
client.stop_channels()
manager.shutdown_kernel()
print("alive", manager.is_alive())
