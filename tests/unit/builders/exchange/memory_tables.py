"""Tables of memory as tools write them: torch's memory timeline, and memray's allocations as CSV."""

from __future__ import annotations

NOW = 1_750_000_000_000_000_000
ROWS = [
    [-1, 1, 1000, 0],
    [NOW, 2, 400, 4],
    [NOW + 10, 3, -400, 4],  # a tensor changes in place, and its category with it
    [NOW + 10, 3, 400, 5],
    [NOW + 20, 2, 50, 3],
    [NOW + 30, 4, -50, 3],
    [NOW + 40, 4, -400, 5],
]
TABLE = """allocator,num_allocations,size,tid,thread_name,stack_trace
MALLOC,64,67108864,1,main,keep;work.py;5|<module>;work.py;9
MALLOC,2,700,1,main,churn;/a;b/work.py;8|<module>;work.py;10
MMAP,1,4096,2,other,
MALLOC,x,1,1,main,f;g.py;1
"""
