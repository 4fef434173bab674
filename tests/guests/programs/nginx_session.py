"""nginx started as root, its workers another user's: answers, the faces of master and worker, a reload, and its end."""

import hashlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import face

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
here = Path.cwd()
here.chmod(0o755)
for folder in ("body", "logs", "pages"):
    (here / folder).mkdir()
(here / "pages" / "text").write_text("".join(f"line {number} of many\n" for number in range(40000)))
(here / "nginx.conf").write_text(f"""
user www-data; daemon off; worker_processes 2; pid {here}/nginx.pid; error_log {here}/logs/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; gzip on; gzip_types *; gzip_comp_level 9; default_type text/plain; client_body_temp_path {here}/body;
  proxy_temp_path {here}/body/p; fastcgi_temp_path {here}/body/f; uwsgi_temp_path {here}/body/u; scgi_temp_path {here}/body/s;
  server {{ listen 127.0.0.1:{port}; root {here}/pages; }}
}}
""")
master = subprocess.Popen(["/usr/sbin/nginx", "-c", str(here / "nginx.conf"), "-p", str(here)])


def workers() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()]


def wait_for(what: str, condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    print("never came:", what)


def ask() -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/text", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


wait_for("the port", listens)
wait_for("both workers", lambda: len(workers()) == 2)
digests = {hashlib.sha256(ask()).hexdigest() for _ in range(60)}
print("answers", sorted(digests))
print("users", [Path(f"/proc/{pid}").stat().st_uid for pid in (master.pid, *workers())])
print(*face.settled(master.pid), sep="\n")
# Which number a worker's sockets have depends on when its peers started.
print(*(line for line in face.settled(workers()[0]) if not line.startswith("descriptors")), sep="\n")
before = set(workers())
os.kill(master.pid, signal.SIGHUP)
wait_for("new workers", lambda: len(workers()) == 2 and not before & set(workers()))
print("after the reload", {hashlib.sha256(ask()).hexdigest() for _ in range(30)} == digests)
master.send_signal(signal.SIGQUIT)
print("nginx ends with", master.wait(30))
print("errors", [line for line in (here / "logs" / "error.log").read_text().splitlines() if "[notice]" not in line])
