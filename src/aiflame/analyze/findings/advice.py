"""Remedies: a sentence for each kind of finding, and for each stall reason. They contain no text from a profile."""

from __future__ import annotations

from collections.abc import Mapping

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.gpu.catalogue import OF_KIND
from aiflame.analyze.findings.host_causes import BY_KIND

_OF_KINDS: Mapping[str, str] = {
    "idle-data": "Load data ahead of the GPU: more DataLoader workers, pin_memory=True, a larger prefetch_factor, less work for each item.",
    "idle-sync": "Do not wait here: keep the value on the GPU, read it in every hundredth step only, or copy it with non_blocking=True.",
    "idle-optimizer": "Use a fused or foreach optimizer (fused=True), so that one launch replaces Python's loop over parameters.",
    "idle-host": "Move this work out of the loop, into another thread or process, or behind the launch of the next GPU work.",
    "communication": "Overlap communication with computing: larger buckets, collectives that start earlier, or fewer and smaller messages.",
    "hot-group": "Make this work cheaper: lower precision, a fused kernel, a better tile size, or fewer calls of it.",
    "no-kv-cache": (
        "Keep keys and values: use_cache=True in generate() of transformers, or hand past_key_values from call to call and give the model"
        " the new token alone."
    ),
    "far-from-limit": (
        "Bring this kernel nearer to its limit: give it more work at once (larger batches, fewer and larger launches), a tuned library's"
        " version or another tile size, and look at the stalls of its warps: aiflame annotate."
    ),
    "memory-grows": (
        "Keep nothing of past steps: store loss.item() or tensor.detach().cpu() in place of a tensor that holds its graph, and bound the"
        " lists and caches to which each step adds."
    ),
    "memory-refused": (
        "Look at all that was live: aiflame flame --at oom. Free memory before, or take smaller batches; where much of a GPU's memory is"
        " free but in pieces, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
    ),
    "memory-activations": (
        "Compute them again in the backward pass (torch.utils.checkpoint around these layers) for more time, or take smaller batches or"
        " autocast to a smaller dtype."
    ),
    "memory-change": "Make this change and record again: the estimate follows from the lives of the blocks, and knows no time.",
    "memory-peak": (
        "To lower the peak, free this before it is reached (del, smaller batches), keep it in a smaller dtype, or compute it again where it"
        " is needed: torch.utils.checkpoint for activations."
    ),
    "slow-step": "Look for work that only this step does: saving, logging, evaluation, garbage collection, compiling for a new shape.",
    "slow-layer": "Compare this layer with its sisters: its shapes, its data type, its device, and a fallback that only it takes.",
    "hot-function": "Call it less often or with less data, use a faster library or more threads, or move the work to a GPU.",
    "hot-line": "Do less here: leave the loop to native code (NumPy, torch), cache values that do not change, or use a better algorithm.",
    "straggler": "Give this rank less work or a faster machine: compare its host, its data and its CPU time with those of the others.",
    "exposed-communication": "Start collectives earlier and in larger buckets, so that the backward pass hides them.",
    "critical-path": "Balance the work: this rank has more of it than the others, or does it more slowly.",
    "waiting": "Use fewer threads (OMP_NUM_THREADS), or divide the work evenly: schedule(dynamic), larger parallel regions.",
    "crowded-openmp": (
        "Record again while the machine is less busy. Where it always is, use fewer threads (OMP_NUM_THREADS), and let those that wait"
        " sleep: OMP_WAIT_POLICY=passive."
    ),
    "waiting-blas": (
        "Use fewer threads, since these operands are too small for so many: OPENBLAS_NUM_THREADS, or threadpoolctl.threadpool_limits()"
        " around this part."
    ),
    "waiting-gil": "Use processes (ProcessPoolExecutor) instead of threads for Python code, or native code that releases the GIL.",
    "waiting-lock": "Do less while the lock is held: move slow work out of its `with` block, or give each thread data of its own.",
    "waiting-io": "Wait less often: write and fsync() in larger batches, read larger pieces ahead, or hand it to another thread.",
    "waiting-sleep": "Wait for the event itself (Event.wait(), Condition, select) instead of sleeping, or sleep for a shorter time.",
    "waiting-data": "Set num_workers higher on the DataLoader, with persistent_workers=True, or make an item cheaper to load.",
    "loop-blocked": "Await it instead: asyncio.sleep(), an asynchronous client, or asyncio.to_thread() for calls that block.",
    "loop-computes": (
        "Let another thread or process compute: await asyncio.to_thread() for native code that releases the GIL,"
        " loop.run_in_executor() with a ProcessPoolExecutor for Python; or await asyncio.sleep(0) between small pieces."
    ),
    "oversubscribed-openmp": (
        "Set OMP_NUM_THREADS, or call torch.set_num_threads() or threadpoolctl.threadpool_limits(), so that the threads of all processes"
        " together are as many as the CPUs."
    ),
    "oversubscribed-blas": (
        "Set OPENBLAS_NUM_THREADS or MKL_NUM_THREADS, or call threadpoolctl.threadpool_limits(), so that the threads of all processes"
        " together are as many as the CPUs."
    ),
    "oversubscribed-python": "Start no more threads than CPUs: ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))).",
    "oversubscribed-processes": (
        "Start no more processes than CPUs, len(os.sched_getaffinity(0)): smaller pools, a smaller num_workers of the DataLoader."
    ),
    "oversubscribed-native": "Start no more threads than CPUs: std::thread::hardware_concurrency() or sched_getaffinity() count them.",
    "recompiling-size": (
        "Mark the dimension as dynamic: torch._dynamo.mark_dynamic(tensor, dimension) before the call, or compile with dynamic=True; or"
        " pad to few sizes."
    ),
    "recompiling-type": "Call it with tensors alike in dtype, device, layout and requires_grad: convert them before the call.",
    "recompiling-value": (
        "Pass the changing value as a tensor, or keep it out of the compiled function; integer attributes of modules may change with"
        " torch._dynamo.config.allow_unspec_int_on_nn_module = True."
    ),
    "recompiling-other": "Keep the guarded value constant, or out of the compiled function; TORCH_LOGS=recompiles prints all guards.",
    "retracing-size": "Pad or bucket the argument to few sizes: jax.jit compiles for each shape once.",
    "retracing-type": "Convert the argument to one dtype before the call, as by jnp.asarray(value, dtype): a Python number has its own.",
    "retracing-value": "Pass the changing value as an array: take it out of static_argnums and static_argnames.",
    "retracing-structure": "Pass containers with the same keys and lengths in each call: None in place of an array counts, too.",
    "retracing-function": (
        "Call jax.jit once, outside of the loop, on a function that stays the same object; pass changing values as arguments rather than in"
        " a lambda, functools.partial or closure."
    ),
    "throttled": (
        "Raise the limit (cpu.max, docker --cpus, resources.limits.cpu of Kubernetes), or run as many threads as it allows: more use it"
        " up at the begin of each period."
    ),
    "page-faults": (
        "Use memory again: write into arrays made before the loop (out=), or keep freed memory by MALLOC_TRIM_THRESHOLD_ and"
        " MALLOC_MMAP_THRESHOLD_ or another allocator (jemalloc, tcmalloc)."
    ),
    "swapping": "Use less memory: smaller batches, smaller types, data read in parts, fewer worker processes; or use a machine with more.",
    "inside-no-overlap": "Copy ahead of the math: more stages (num_stages), asynchronous copies, or smaller tiles that leave room.",
    "inside-copies-late": "Issue copies earlier: more stages (num_stages), or a producer warp of their own.",
    "inside-tail": "Let the grid fill whole waves: another tile size, a persistent kernel, or split-K.",
    "inside-wait": "Issue the awaited operation earlier, or give the warps other work meanwhile.",
}
OF_STALLS: Mapping[str, str] = {
    "alu_dependency": "Give each wave several independent values to work on: unroll, or interleave loads and arithmetic.",
    "arbiter_win_ex_stall": "The units are busy: use matrix instructions (MFMA, WMMA) or lower precision, or compute less.",
    "barrier": "Make the warps of a block reach the barrier together: fewer barriers, even work, or smaller blocks.",
    "barrier_wait": "Make the waves of a workgroup reach the barrier together: fewer barriers, even work, or smaller workgroups.",
    "branch_resolving": "Use fewer branches in the inner loop: unroll it, or replace branches by selection.",
    "control": "Use fewer branches in the inner loop: unroll it, or replace branches by selection.",
    "dispatch_stall": "Reduce pressure on registers and units: smaller tiles, or fewer values that live at once.",
    "dist_acc": "Give each thread several independent values to work on: unroll, or interleave loads and arithmetic.",
    "drain": "Write less at the end, and in whole lines of memory: vector stores, or shared memory that gathers them.",
    "gmma": "Keep more matrix instructions in flight: more stages, larger tiles, and work between issue and wait.",
    "imc_miss": "Use fewer different constants in the loop, or keep them in registers.",
    "inst_fetch": "Make the code smaller: unroll less, inline less, and use fewer jumps.",
    "lg_throttle": "Use fewer and wider memory instructions: vector loads (float4), and neighbouring threads at neighbouring addresses.",
    "long_scoreboard": (
        "Fetch from memory earlier and less: prefetch or copy asynchronously into shared memory, reuse tiles, coalesce accesses, or raise"
        " occupancy."
    ),
    "math_pipe_throttle": "The arithmetic units are busy: use tensor cores or lower precision, or compute less.",
    "membar": "Use fewer or weaker fences: one per block instead of one per thread, or a narrower scope.",
    "mio_throttle": "Use fewer shared-memory and special instructions: wider accesses, values in registers, faster approximations.",
    "no_instruction_available": "Make the code smaller: unroll less, inline less, and use fewer jumps.",
    "no_instructions": "Make the code smaller: unroll less, inline less, and use fewer jumps.",
    "pipestall": "The units are busy: use matrix instructions (DPAS, joint_matrix) or lower precision, or compute less.",
    "sbid": (
        "Load earlier and less: prefetch, load blocks, reuse tiles in registers or shared local memory, or let more threads run (a smaller"
        " register file for each)."
    ),
    "send": "Use fewer and wider messages: loads and stores of blocks, and neighbouring work items at neighbouring addresses.",
    "short_scoreboard": "Avoid conflicts of shared-memory banks, and load from shared memory earlier.",
    "sleep_wait": "Sleep for a shorter time, or signal with a barrier instead of polling.",
    "sleeping": "Sleep for a shorter time, or signal with a barrier instead of polling.",
    "sync": "Make the work items of a group reach the barrier together: fewer barriers and fences, even work, or smaller groups.",
    "tex_throttle": "Use fewer texture accesses, or plain loads.",
    "wait": "Give the scheduler other instructions: unroll, or let a thread work on several independent values.",
    "waitcnt": (
        "Load earlier and less: more work between a load and its s_waitcnt, tiles in LDS, whole lines of memory by neighbouring lanes, or"
        " more waves on a SIMD."
    ),
    "warpgroup_arrive": "Let the warps of a group do equal work before the matrix instruction.",
}
GENERAL = "Look at its evidence, change one thing, record again, and compare: aiflame diff BEFORE AFTER."


def fix(finding: Finding) -> str:
    """The remedy for a finding; for one about stalls, that for the stall reason. The most frequent stall of a group of kernels may be a
    small part of its samples."""
    if finding.kind in OF_KIND:
        return OF_KIND[finding.kind].fix
    of_stall = OF_STALLS.get(finding.view.stall, "")
    if of_stall and finding.kind == "hot-group":
        return f"{_OF_KINDS[finding.kind]} For its top stall: {of_stall}"
    if of_stall:
        return of_stall
    if finding.kind in BY_KIND:
        return BY_KIND[finding.kind].fix
    return _OF_KINDS.get(finding.kind, GENERAL)
