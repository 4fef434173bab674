"""Programs of our own (`exotic/*.c`) that do rare things which some programs always will do."""

from __future__ import annotations

from collections.abc import Sequence

from guest import Guest

SCENES = {
    "face": ("alone", "inherited", "sigchld"),
    "stacks": (
        "asked", "longjmp", "faults", "overflows", "ucontext", "below",
        "alternate 2048", "alternate 3072", "alternate 8192", "alternate 65536", "alternate 67108864",
    ),
    "threads": (
        "many", "small", "shared-tls", "no-tls", "shared-memory-process", "realtime", "deadline", "affinity", "ends", "leader-leaves",
    ),
    "signals": (
        "block-all", "blocked-thread", "suspended", "interrupted", "stopped", "own-profiler", "traced", "queue-limit", "deaths",
    ),
    "processes": (
        "vfork", "spawn", "shares-memory", "like-vfork", "raw-fork", "clone3", "threads-fork", "exec-chain", "thread-execs", "daemon",
        "orphans",
    ),
    "memory": (
        "locks", "locks-little", "user-faults", "unmaps", "maps-over", "read-only", "address-space", "many-maps", "guards",
    ),
    "limits": (
        "closes-all", "closes-standard", "none-left", "table-full", "small-files", "cpu-limit", "no-processes", "no-tsc", "not-dumpable",
        "odd-name",
    ),
    "identities": (
        "other-user", "other-user-at-once", "back-and-forth", "other-root", "pivots", "namespaces", "hides-proc", "strict", "filtered",
    ),
}  # fmt: skip

_AS_ROOT = {
    "threads": ("realtime", "deadline"),
    "limits": ("no-processes",),
    "memory": ("locks", "locks-little"),
    "identities": ("other-user", "other-user-at-once", "back-and-forth", "other-root", "pivots", "hides-proc"),
}


def _scene(program: str, scene: str) -> Guest:
    return Guest(
        f"{program}: {scene}",
        (f"{{made}}/{program}", *scene.split()),
        make=(("gcc", "-std=gnu11", "-O1", "-g", "-pthread", "-o", program, f"{{exotic}}/{program}.c"),),
        needs=("gcc", *(("root",) if scene in _AS_ROOT.get(program, ()) else ())),
        may_differ=(r"/proc/\d+/", r"guest-[^/ ]+"),
        seconds=60,
    )


def _shell(name: str, script: str, *needs: str, sampled: int = 0, may_differ: Sequence[str] = ()) -> Guest:
    return Guest(name, ("bash", "-c", script), needs=needs, sampled=sampled, may_differ=tuple(may_differ), seconds=60)


_BURN = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
_BUSY_PERL = "perl -e '$s += $_ % 7 for 1 .. 8000000; print \"$s\\n\"'"

_SHELL = (
    _shell(
        "a control group without memory",
        'g=/sys/fs/cgroup/guests-$$; mkdir $g || exit 77; echo 60M > $g/memory.max; echo 0 > $g/memory.swap.max 2>/dev/null;'
        f" (echo $BASHPID > $g/cgroup.procs; {_BUSY_PERL}; perl -e '$x = \"a\" x 200_000_000; print length $x'; echo status $?)"
        " ; echo status $?; cat $g/memory.events | grep -c .; rmdir $g",
        "root",
        "perl",
        "/sys/fs/cgroup/cgroup.controllers",
        may_differ=(r"^.*(Killed|line \d+).*$",),
    ),
    _shell("a sandbox that hides the library (bwrap)", f"bwrap --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev {_BUSY_PERL}; echo $?", "bwrap", "perl"),
    _shell("a sandbox that is read-only (bwrap)", f"bwrap --ro-bind / / --proc /proc --dev /dev {_BUSY_PERL}; echo $?", "bwrap", "perl"),
    _shell("an empty environment", f"env -i /usr/bin/{_BUSY_PERL}; echo $?", "perl"),
    _shell("unshare with a map of users", f"unshare -Urpf --mount-proc {_BUSY_PERL}; echo $?", "unshare", "perl", may_differ=()),
    _shell("nohup and a background job", f"nohup {_BUSY_PERL} > out 2>&1 < /dev/null & wait $!; echo $?; cat out", "perl"),
    _shell("setsid with descriptors closed", f"setsid -w bash -c 'exec 3>&- 4>&- 5>&-; {_BURN}; echo $i' ; echo $?"),
    _shell("traps and jobs of a shell", "trap 'echo term' TERM; trap 'echo usr' USR1; kill -USR1 $$; (sleep 0.2; kill $$) & " + _BURN + "; wait; echo $i"),
    _shell("a pipe that is closed early", f"(trap '' TERM; yes 'line' ; echo \"yes: $?\" >&2) | head -n 3; {_BURN}; echo ${{PIPESTATUS[*]}}"),
    _shell("700 rounds of short processes", "i=0; while [ $i -lt 700 ]; do x=$(echo $i); /bin/true; i=$((i+1)); done; echo $x; exit 5"),
    _shell("under strace", f"strace -f -o trace {_BUSY_PERL}; echo $?; tail -n 1 trace | sed 's/^[0-9]* *//'; rm trace", "strace", "perl"),
    _shell("under gdb", f"gdb -q -batch -ex run -ex 'info inferiors' --args {_BUSY_PERL} 2>&1 | grep -vE '^(warning|\\[|Using|$)'", "gdb", "perl", may_differ=(r"process \d+",)),
    _shell("under ltrace", "ltrace -c -o counts true; echo $?; rm counts", "ltrace"),
    _shell("faketime", f"faketime '2020-01-01 00:00:00' bash -c 'date +%Y; {_BURN}; date +%Y-%m'", "faketime"),
    _shell("faketime, a clock that runs 100 times as fast", f"faketime -f '+0 x100' bash -c 'a=$(date +%s); {_BURN}; b=$(date +%s); echo $((b - a > 20))'", "faketime"),
    _shell("fakeroot", f"fakeroot bash -c 'touch mine; chown 12:34 mine; stat -c %u:%g mine; {_BURN}; id -u'", "fakeroot"),
    _shell("eatmydata", f"eatmydata {_BUSY_PERL}", "eatmydata", "perl"),
    _shell("setpriv without privileges", f"setpriv --reuid 33 --regid 33 --clear-groups --no-new-privs --bounding-set -all {_BUSY_PERL}; echo $?", "root", "setpriv", "perl"),
    _shell("nice, ionice, chrt, taskset", f"nice -n 7 taskset -c 0 chrt -b 0 bash -c 'nice; taskset -p $$ | sed s/.*://; {_BURN}'", "taskset"),
    _shell("timeout that strikes", "timeout 1 bash -c 'trap \"echo caught; exit 3\" TERM; while :; do :; done'; echo $?; timeout -s KILL 1 bash -c 'while :; do :; done'; echo $?", may_differ=(r"line 1: +\d+",)),
    _shell("tmux", "tmux -L g$$ -f /dev/null new-session -d 'perl -e \"\\$s += \\$_ for 1 .. 3000000; print \\$s\" > out; exit 4'; for i in $(seq 200); do tmux -L g$$ has-session 2>/dev/null || break; sleep 0.05; done; cat out", "tmux", "perl"),
    _shell("proot", f"proot -r / {_BUSY_PERL}; echo $?", "proot", "perl"),
)  # fmt: skip

EXOTIC_GUESTS = (*(_scene(program, scene) for program, scenes in SCENES.items() for scene in scenes), *_SHELL)
