"""Four processes that call torch.distributed on Gloo, and write their calls down: gloo_ranks.py FOLDER [spawn]; else torchrun starts them.

Each writes FOLDER/RANK.json: the calls that it made, as [name, bytes, peer], and further facts about them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

SIZE, STEPS, NONE = 4, 3, 0xFFFFFFFF
FLOAT = 4


class Account:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.waits = 0

    def add(self, name: str, count: int = 0, peer: int = NONE, *, waits: int = 1) -> None:
        self.calls.append((f"gloo:{name}", FLOAT * count, peer))
        self.waits += waits


def run(rank: int, folder: str, spawned: bool) -> None:
    torch.set_num_threads(1)
    if spawned:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=SIZE)
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    account = Account()
    collectives(rank, account)
    peers(rank, account)
    groups(rank, account)
    report = {"straggler": straggle(rank, account), "failed": fail(), "profiler": under_profiler(account), **train()}
    report |= {"rank": rank, "calls": account.calls, "waits": account.waits}
    Path(folder, f"{rank}.json").write_text(json.dumps(report))
    dist.destroy_process_group()


def collectives(rank: int, account: Account) -> None:
    for _ in range(5):
        dist.all_reduce(torch.ones(1000))
        account.add("all_reduce", 1000)
    dist.broadcast(torch.ones(100), 1)
    account.add("broadcast", 100, 1)
    dist.reduce(torch.ones(50), 2)
    account.add("reduce", 50, 2)
    dist.all_gather([torch.zeros(10) for _ in range(SIZE)], torch.ones(10))
    account.add("all_gather", 10)
    dist.gather(torch.ones(11), [torch.zeros(11) for _ in range(SIZE)] if rank == 0 else None, 0)
    account.add("gather", 11, 0)
    dist.scatter(torch.zeros(12), [torch.ones(12) for _ in range(SIZE)] if rank == 3 else None, 3)
    account.add("scatter", 12, 3)
    dist.all_to_all_single(torch.zeros(SIZE * 2), torch.ones(SIZE * 2))
    account.add("all_to_all", SIZE * 2)
    dist.barrier()
    account.add("barrier")
    dist.monitored_barrier()
    account.add("monitored_barrier", waits=0)
    work = dist.all_reduce(torch.ones(9), async_op=True)
    work.wait()
    account.add("all_reduce", 9)
    functional.wait_tensor(functional.all_reduce(torch.ones(13), "sum", dist.group.WORLD))
    account.add("all_reduce", 13)


def peers(rank: int, account: Account) -> None:
    if rank == 0:
        dist.send(torch.ones(5), 1)
        account.add("send", 5, 1)
    if rank == 1:
        dist.recv(torch.ones(5), 0)
        account.add("recv", 5, 0)
    after, before = (rank + 1) % SIZE, (rank - 1) % SIZE
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(3), after), dist.P2POp(dist.irecv, torch.ones(3), before)])
    for work in works:
        work.wait()
    account.add("send", 3, after)
    account.add("recv", 3, before)


def groups(rank: int, account: Account) -> None:
    pair = dist.new_group([1, 3])
    if rank in (1, 3):
        dist.all_reduce(torch.ones(2), group=pair)
        account.add("all_reduce", 2)


def straggle(rank: int, account: Account) -> int:
    """Rank 3 sleeps when the others have come; the number of bytes identifies the call."""
    store: Any = dist.distributed_c10d._get_default_store()
    if rank == 3:
        store.wait([f"{other} comes" for other in range(3)])
        time.sleep(0.5)
    else:
        store.set(f"{rank} comes", "")
    dist.all_reduce(torch.ones(777))
    account.add("all_reduce", 777)
    return 777 * FLOAT


def fail() -> str:
    """A reduction that Gloo does not know of sparse tensors."""
    try:
        dist.all_reduce(torch.ones(2, 2).to_sparse(), op=dist.ReduceOp.MIN)
    except RuntimeError as error:
        return str(error)
    return ""


def under_profiler(account: Account) -> bool:
    """torch's own profiler sees its collective beside us."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(17))
    account.add("all_reduce", 17)
    return any(event.name == "gloo:all_reduce" for event in profiler.events())


def train() -> dict[str, Any]:
    """Steps of DistributedDataParallel; the sizes of its buckets, as it says, before and after it has looked at the first step."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    parallel: Any = DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = time.monotonic_ns()
    for _ in range(STEPS):
        parallel(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    said = parallel._get_ddp_logging_data()
    sizes = [[int(size) for size in said[name].split(", ")] for name in ("bucket_sizes", "rebuilt_bucket_sizes")]
    return {"training": begin, "buckets": sizes[0] + (STEPS - 1) * sizes[1], "steps": STEPS}


if __name__ == "__main__":
    if "spawn" in sys.argv:
        torch.multiprocessing.spawn(run, args=(sys.argv[1], True), nprocs=SIZE)
    else:
        run(0, sys.argv[1], False)
