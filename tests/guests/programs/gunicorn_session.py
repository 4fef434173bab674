"""gunicorn with two workers: answers, a reload, a worker that is killed and made again, and its end."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
Path("app.py").write_text(
    "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "def app(environ, start):\n"
    "    text = str(fib(int(environ['PATH_INFO'][1:] or 0))).encode()\n"
    "    start('200 OK', [('Content-Length', str(len(text)))])\n"
    "    return [text]\n"
)
words = [
    sys.executable,
    "-m",
    "gunicorn",
    "-w",
    "2",
    "-b",
    f"127.0.0.1:{port}",
    "--log-level",
    "critical",
    "--worker-tmp-dir",
    ".",
    "app:app",
]
server = subprocess.Popen(words, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def ask(number: int) -> str:
    for _ in range(600):
        try:
            return httpx.get(f"http://127.0.0.1:{port}/{number}", timeout=60).text
        except httpx.TransportError:
            time.sleep(0.05)
    return "no answer"


def workers() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]


print("answers", [ask(number) for number in range(24)])
before = workers()
os.kill(before[0], signal.SIGKILL)
for _ in range(600):
    if len(workers()) == 2 and before[0] not in workers():
        break
    time.sleep(0.05)
print("again", [ask(18) for _ in range(5)])
server.send_signal(signal.SIGHUP)
time.sleep(1)
print("reloaded", ask(10), len(workers()))
server.send_signal(signal.SIGTERM)
print("server ends with", server.wait(60))
