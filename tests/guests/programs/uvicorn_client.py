"""uvicorn in a process of its own, asked by httpx: answers, the server's face, and how it ends."""

import hashlib
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import face
import httpx

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
here = Path(__file__).parent
words = [sys.executable, "-m", "uvicorn", "--app-dir", str(here), "uvicorn_app:app", "--port", str(port), "--log-level", "warning"]
server = subprocess.Popen(words)
with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
    for _ in range(600):
        try:
            client.get("/")
            break
        except httpx.ConnectError:
            time.sleep(0.05)
    digest = hashlib.sha256()
    for number in range(400):
        answer = client.post("/sum", content=json.dumps(list(range(number))))
        digest.update(answer.content)
        assert answer.status_code == 200
    print("answers", digest.hexdigest())
    print("large", len(client.get("/large").content), client.get("/missing").status_code)
    print(*(line for line in face.settled(server.pid) if not line.startswith("Threads")), sep="\n")
server.send_signal(signal.SIGTERM)
print("server ends with", server.wait(30))
