"""memray in the same process: its count of one function's allocations."""

from pathlib import Path

import memray


def take(rounds: int) -> int:
    return sum(len(bytearray(100_003)) for _ in range(rounds))


def deep(n: int) -> int:
    return n if n < 2 else deep(n - 1) + deep(n - 2)


with memray.Tracker(Path("allocations.bin"), native_traces=True):
    print("taken", take(500), "deep", deep(25))
with memray.FileReader("allocations.bin") as reader:
    records = [record for record in reader.get_allocation_records() if record.size == 100_004]
    named = sum(any(frame[0] == "take" for frame in record.stack_trace()) for record in records)
    print("allocations", len(records), "in take", named)
