"""`planted_loops.py FUNCTION SECONDS`: an event loop that computes for so much CPU time, and prints the part of its time for which it was
held up."""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

RANDOM = random.Random(1)
SECONDS = float(sys.argv[2])
STARTED = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
computed = 0.0


def goes_on():
    return computed < SECONDS


def digests(seconds):
    global computed
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        sum(range(2_000))  # planted
    computed += time.thread_time() - begin


async def answers(low, high, pause):
    """Works for this long between two waits."""
    while goes_on():
        digests(RANDOM.uniform(low, high))
        await asyncio.sleep(pause)


async def beats():
    while goes_on():
        await asyncio.sleep(RANDOM.uniform(0.01, 0.03))


async def converses(reader, writer):
    while await reader.read(1):
        writer.write(b"x")


async def talks():
    """Through a socket, whose other end has its own work in the loop."""
    server = await asyncio.start_server(converses, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    while goes_on():
        writer.write(b"x")
        await reader.read(1)
        await asyncio.sleep(0.005)
    writer.close()
    server.close()


async def together(*work):
    await asyncio.gather(*work)


def computing():
    asyncio.run(together(answers(0.15, 0.4, 0.1), beats()))


def computing_beside_a_server():
    asyncio.run(together(answers(0.15, 0.4, 0.1), talks()))


def computing_in_pieces():
    asyncio.run(together(answers(0.005, 0.03, 0.001), beats()))


def computing_seldom():
    asyncio.run(together(answers(0.12, 0.15, 1.7), beats()))


def computing_alone():
    """Nobody else has anything to do."""
    asyncio.run(answers(0.15, 0.4, 0.02))


async def hands_over():
    while goes_on():
        await asyncio.to_thread(digests, RANDOM.uniform(0.15, 0.4))


def computing_in_a_thread():
    asyncio.run(together(hands_over(), beats()))


globals()[sys.argv[1]]()
print(computed / (time.clock_gettime(time.CLOCK_BOOTTIME) - STARTED))
