"""Records a command: prepares the profile, runs the command under every hook, and closes the recording."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder import claims
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.meta import Clocks, Host, Meta, Recorder
from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.secrets.masking import masked_arguments
from aiflame.recorder import command as commands
from aiflame.recorder.hooks import environment
from aiflame.recorder.intra import VARIABLE
from aiflame.recorder.keep import Keeper
from aiflame.recorder.options import LEASE_BYTES, RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.supervise import children_cpu_ns, keep_streams_free, signals_held, supervise, wait_until
from aiflame.recorder.tracing import asked_for, trace_features
from aiflame.recorder.view import OURS, View
from aiflame.values import asdict, dataclass, field, replace
from aiflame.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.profile.folder.meta import Kept
    from aiflame.recorder.eu_stalls.sampler import EuStalls
    from aiflame.recorder.looks.waits import Waits
    from aiflame.recorder.numbers import Numbers
    from aiflame.recorder.ring.flight import Flight
    from aiflame.recorder.sources.base import Source
    from aiflame.recorder.telemetry import Telemetry

_OWN_BYTES = 32 << 10
"""The recorder's own files in a profile: meta.json, the control page, folders."""


@dataclass(slots=True)
class Recording:
    """The result of a run: the profile's location (not sealed yet), the command's status, and notes on missing data."""

    place: ProfileLocation
    status: int
    """The exit status as `subprocess` gives it: negative for a signal."""
    notes: list[str] = field(default_factory=list)
    living: list[int] = field(default_factory=list)
    """Processes that are still running and being recorded."""
    bytes: int = 0
    """Size of the recorded tables."""
    held: dict[str, int] = field(default_factory=dict)
    """Open libraries of temporary folders: INODE-DEVICE → descriptor."""

    @property
    def profile(self) -> Path:
        return self.place.profile


def run(
    command: list[str],
    place: ProfileLocation,
    options: RecordOptions,
    *,
    overwrite: bool = False,
    seal_follows: bool = True,
    wait_daemons: bool = False,
    push: str = "",
) -> Recording:
    """Runs `command` to its end with recording on; with `wait_daemons`, also waits for processes that it leaves running.

    `seal_follows`: the profile is sealed right afterwards, while libraries are still in place. `push`: the queue into which windows that a
    flight recorder keeps are put."""
    keep_streams_free()
    program = commands.find(command)
    variables, hook_notes = environment(
        os.environ,
        place.profile.absolute(),
        features(options),
        command,
        asked=asked_for(options.trace),
        first=commands.first_library(program),
    )
    variables.update(intra_variables(options) | counter_variables(options))
    notes = commands.obstacles(program) + hook_notes
    page, meta = prepare(place, options, command, overwrite=overwrite)
    for note in notes:
        place.tell(note)
    with signals_held():
        watch = Watch(place, page, notes, options, meta, push)
        try:
            status = supervise(command, variables, watch, takes=watch.takes)
        except BaseException:  # it has not been started
            place.remove()
            raise
        alive: list[int] = []
        with watch.noted():
            from aiflame.recorder.end import finish, still_recording

            if wait_daemons:
                wait_until(lambda seconds: _all_have_ended(still_recording(place), watch, seconds))
            # A ring without its recorder would only grow: it ends with the command.
            alive = [] if options.last_ms else still_recording(place)
            meta = replace(meta, cpu_ns=children_cpu_ns()) if not options.last_ms else replace(meta, kept=watch.kept_at_end(status))
            finish(place, page, meta, status, notes, lambda: watch.finish(sealed_soon=seal_follows and not alive), alive)
    return Recording(place, status, notes, alive, page.used_bytes, watch.held())


def intra_variables(options: RecordOptions) -> dict[str, str]:
    """The variables of `--intra`. Inductor's own launcher cannot pass the buffer for records to kernels, so Triton's is used instead."""
    return {VARIABLE: options.intra, "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0"} if options.intra else {}


def counter_variables(options: RecordOptions) -> dict[str, str]:
    """The variable that passes the user's own counters to the collector."""
    names = options.counted[1]
    return {"AIFLAME_GPU_COUNTERS": names} if names else {}


def features(options: RecordOptions) -> int:
    chosen = {
        Feature.PYTHON: options.python,
        Feature.OPENMP: options.openmp,
        Feature.JIT: options.jit,
        Feature.OPENCL: options.opencl,
        Feature.CUDA: options.cuda,
        Feature.ROCM: options.rocm,
        Feature.GPU_MEMORY: options.gpu_memory,
        Feature.HOST_MEMORY: options.host_memory_every > 0,
        Feature.CHILDREN: options.children,
        Feature.MEANING: options.meaning and options.python,
        Feature.NVTX: options.regions,
        Feature.ITT: options.regions,
        Feature.TRITON_NAMES: options.triton_names,
        Feature.KEEP_IR: options.keep_ir,
    }
    return sum(int(feature) for feature, on in chosen.items() if on) | trace_features(options.trace, options.trace_stacks)


def prepare(place: ProfileLocation, options: RecordOptions, command: list[str], *, overwrite: bool) -> tuple[ControlPage, Meta]:
    """Prepares an empty profile into which processes can record. An error leaves none."""
    created = False
    try:
        place.make(overwrite=overwrite)
        created = True
        profile = place.folder()
        identity = claims.new_id()
        claims.claim(profile, identity)
        meta = Meta(
            version=VERSION,
            command=masked_arguments(command),
            host=Host.here(),
            recorder=Recorder.this(),
            options=asdict(options),
            started=Clocks.now(),
            job_rank=place.rank,
            id=identity,
        )
        meta.put(profile)  # first of all: a command that opens the profile from now on sees that we own it and are running
        profile.new_folder("spool")
        if options.last_ms:
            _prepare_ring(place)
        page = ControlPage.create(
            profile,
            cpu_rate=options.cpu_rate,
            wall_rate=options.wall_rate,
            max_bytes=_limit(options),
            features=features(options),
            gpu_sampling=options.gpu_sampling,
            gpu_counters=options.counted[0],
            host_memory_every=options.host_memory_every,
        )
        return page, meta
    except (OSError, AiflameError) as error:
        if created:
            place.remove()
        if isinstance(error, AiflameError):
            raise
        where = place.whole.absolute().parent
        reason = "there is no space left" if error.errno == errno.ENOSPC else (error.strerror or str(error)).lower()
        raise AiflameError(f"cannot write a profile in {where}: {reason}: choose another place with -o") from None


def _limit(options: RecordOptions) -> int:
    """The most bytes that processes may write; 0: any number. In a ring the recorder raises it again and again."""
    if options.last_ms:
        return LEASE_BYTES
    return max(options.max_bytes - _OWN_BYTES, 1) if options.max_bytes else 0


def _prepare_ring(place: ProfileLocation) -> None:
    """Makes the folder for requests. AiflameError if old rows cannot be removed in this file system."""
    from aiflame.recorder.ring.punch import refuse_without_holes
    from aiflame.recorder.ring.snapshot import REQUESTS

    refuse_without_holes(place.folder())
    place.folder().new_folder(REQUESTS)


def _telemetry(place: ProfileLocation, page: ControlPage, options: RecordOptions, numbers: Numbers) -> Telemetry | None:
    """Telemetry of this recorder. One rank per host reads the whole machine, the others only their own processes."""
    if not options.telemetry_ms:
        return None
    from aiflame.recorder.sources.processes import Processes, Scheduling
    from aiflame.recorder.telemetry import Telemetry

    root, spool = Path("/"), place.folder().folder("spool")
    own_processes: list[Source] | None = (
        None if place.first_on_host() else [Processes(root, spool, numbers), Scheduling(root, spool, numbers)]
    )
    if own_processes is not None and options.gpu_memory:
        from aiflame.recorder.sources.nvidia import nvidia_memory

        own_processes += nvidia_memory(root, spool, numbers=numbers)
    return Telemetry(place.folder(), page, options.telemetry_ms, own_processes, numbers=numbers)


def _all_have_ended(alive: list[int], watch: Callable[[], None], seconds: float) -> bool:
    """True if no process is left; otherwise waits up to `seconds` for the first of `alive` to end."""
    if not alive:
        return True
    watch()
    try:
        process = os.pidfd_open(alive[0])
    except OSError:  # the process has ended
        return False
    try:
        select.select([process], [], [], seconds)
    finally:
        os.close(process)
    return False


class Watch:
    """The recorder's work while the program runs. No failure in it ends that; the first one becomes a note."""

    def __init__(
        self,
        place: ProfileLocation,
        page: ControlPage,
        notes: list[str],
        options: RecordOptions,
        meta: Meta,
        push: str = "",
        view: View = OURS,
    ) -> None:
        """`view`: the program's, of this machine."""
        self._view = view
        self._place, self._page, self._notes, self._options, self._meta, self._push = place, page, notes, options, meta, push
        self._flight: Flight | None = None
        self._telemetry: Telemetry | None = None
        self._waits: Waits | None = None
        self._stalls: EuStalls | None = None
        self._keeper = Keeper(place.folder(), page, view)
        self._looks, self._next_look = 0, 0.0
        self._stop_noted = False
        self._failed = False

    def __call__(self) -> None:
        with self.noted():
            self._note_stop()
        self._looks += 1
        if self._looks == 1:
            return  # the program has only just been started: slow work waits for the second call
        gc.enable()
        if self._looks == 2:
            with self.noted():
                self._start_telemetry()
            with self.noted():
                self._start_waits()
            with self.noted():
                self._start_stalls()
        with self.noted():
            if self._options.last_ms:
                self._flight_recorder()()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + 1
            with self.noted():
                self._keeper.look()

    def takes(self, number: int) -> bool:
        """True for a signal that `--on signal:NAME` takes; then the window is kept."""
        with self.noted():
            if self._options.on and number in self._flight_recorder().signals:
                self._flight_recorder().take_signal(number)
                return True
        return False

    def kept_at_end(self, status: int) -> Kept | None:
        """The window that the ring has at the end; None if it is lost."""
        with self.noted():
            return self._flight_recorder().kept_at_end(status)
        return None

    def _start_telemetry(self) -> None:
        telemetry = _telemetry(self._place, self._page, self._options, self._view.numbers)
        if telemetry is not None:
            self._telemetry = telemetry
            self._telemetry.start()

    def _start_waits(self) -> None:
        if self._options.looks_at_waits:
            from aiflame.recorder.looks.waits import Waits

            self._waits = Waits(self._place.folder().folder("spool"), self._page, self._view.numbers)
            self._waits.start()

    def _start_stalls(self) -> None:
        """Stalls of Intel GPUs."""
        if not self._options.gpu_sampling:
            return
        if self._view.numbers.differ:
            from aiflame.recorder.eu_stalls.devices import gpus, older_gpus

            if gpus() or older_gpus():
                self._notes.append("stalls of Intel GPUs are not sampled for a program in a container: run aiflame attach in there")
        else:
            from aiflame.recorder.eu_stalls.sampler import EuStalls

            self._stalls = EuStalls(self._place.folder(), self._page, self._options.gpu_sampling, last_ns=self._options.last_ms * 1_000_000)
            self._stalls.start()

    def _flight_recorder(self) -> Flight:
        if self._flight is None:
            from aiflame.recorder.ring.flight import Flight

            self._flight = Flight(self._place, self._page, self._options, self._meta, self._push)
        return self._flight

    def finish(self, *, sealed_soon: bool) -> None:
        with self.noted():
            self._note_stop()
        if self._flight is not None:
            with self.noted():
                self._flight.finish()
            self._notes += self._flight.notes
        with self.noted():
            self._keeper.finish(all_of_them=not sealed_soon)
        for work in (self._telemetry, self._waits, self._stalls):
            with self.noted():
                for note in work.finish() if work is not None else ():
                    self._note(note)

    def held(self) -> dict[str, int]:
        return self._keeper.held()

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """No error leaves the block; the first one in any such block becomes a note."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                self._note(self._place.failure(error))

    def _note(self, note: str) -> None:
        self._notes.append(note)
        self._place.tell(note)

    def _note_stop(self) -> None:
        note = self._page.stop_note()
        if self._stop_noted or note is None:
            return
        self._stop_noted = True
        if self._place.is_gone():
            raise FileNotFoundError(self._place.profile)  # that is why it stopped
        self._notes.append(note)
        self._place.tell(f"{note}; the program goes on, and the data up to here are kept")
