"""Operations of Triton's GPU dialects, by their function."""

LOADS = ("tt.load", "tt.gather", "tt.descriptor_load", "tt.descriptor_gather", "ttg.local_load")
GLOBAL_LOADS = LOADS[:-1]
TMA_COPIES = ("ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather")
"""Copies that are awaited at a barrier."""
COPIES = ("ttg.async_copy_global_to_local", *TMA_COPIES, "amdg.buffer_load_to_local")
BUFFER_LOADS = ("amdg.buffer_load", "amdgpu.buffer_load")
STORES = (
    "tt.store",
    "tt.descriptor_store",
    "tt.descriptor_reduce",
    "tt.descriptor_scatter",
    "tt.atomic_rmw",
    "amdg.buffer_store",
    "amdgpu.buffer_store",
)
TMA_STORES = ("ttng.async_tma_copy_local_to_global", "ttng.async_tma_scatter", "ttng.async_tma_reduce")
DOTS = ("tt.dot", "tt.dot_scaled")
ASYNC_DOTS = ("ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
DOT_WAITS = ("ttng.warp_group_dot_wait",)
COPY_WAITS = ("ttg.async_wait", "ttng.async_tma_store_wait", "amdg.async_wait", "amdgpu.async_wait")
BARRIER_WAIT = "ttng.wait_barrier"
BARRIERS = (BARRIER_WAIT, "ttng.arrive_barrier", "ttg.barrier", "gpu.barrier", "ttng.fence_async_shared", "ttng.cluster_wait")
MEMORY = ("ttg.local_alloc", "ttg.local_store", "ttng.tmem_store", "ttng.tmem_alloc")
"""Operations that store values in a multiprocessor's memory."""
