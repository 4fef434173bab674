"""Green threads: a pool that computes and sleeps, queues, a server and its clients in one thread, and a native thread pool."""

from gevent import monkey

monkey.patch_all()

import socket  # noqa: E402
import threading  # noqa: E402

import face  # noqa: E402
import gevent  # noqa: E402
from gevent.pool import Pool  # noqa: E402
from gevent.queue import Queue  # noqa: E402
from gevent.server import StreamServer  # noqa: E402


def deep(n: int) -> int:
    return n if n < 2 else deep(n - 1) + deep(n - 2)


def work(number: int) -> int:
    gevent.sleep(0.001 * (number % 7))
    return deep(12 + number % 8)


print("pool", sum(Pool(40).imap_unordered(work, range(400))))

queue: Queue = Queue(5)
received: list[int] = []
producers = [gevent.spawn(lambda start=start: [queue.put(start + i) for i in range(50)]) for start in range(0, 500, 50)]
consumer = gevent.spawn(lambda: [received.append(queue.get()) for _ in range(500)])
gevent.joinall([*producers, consumer])
print("queue", sorted(received) == list(range(500)))


def echo(client: socket.socket, _: object) -> None:
    while data := client.recv(4096):
        client.sendall(data[::-1])


server = StreamServer(("127.0.0.1", 0), echo)
server.start()


def ask(number: int) -> bool:
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        text = str(number).encode() * 100
        connection.sendall(text)
        answer = b""
        while len(answer) < len(text):
            answer += connection.recv(4096)
        return answer == text[::-1]


print("echo", sum(Pool(30).map(ask, range(300))))
server.stop()
print("threads", sum(gevent.get_hub().threadpool.map(deep, [18] * 20)))
raised = []
for number in range(50):
    try:
        with gevent.Timeout(0.005):
            while True:
                gevent.sleep(0)
                deep(8)
    except gevent.Timeout:
        raised.append(number)
print("timeouts", len(raised), threading.active_count())
print(*(line for line in face.own() if not line.startswith(("descriptors", "Threads"))), sep="\n")
