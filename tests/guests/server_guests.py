"""Servers and daemons, sanitizers, and allocators in place of libc's."""

from __future__ import annotations

from guest import Guest

_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_ALLOCATORS = {
    "jemalloc preloaded": f"{_LIBRARIES}/libjemalloc.so.2",
    "mimalloc preloaded": f"{_LIBRARIES}/libmimalloc.so.2.0",
    "tcmalloc preloaded": f"{_LIBRARIES}/libtcmalloc.so.4",
    "gperftools' profiler preloaded": f"{_LIBRARIES}/libprofiler.so.0",
}


def _sanitized(name: str, flags: str, command: str = "./clean; echo $?", compiler: str = "gcc", sampled: int = 1) -> Guest:
    build = f"{compiler} -g {flags} -o clean {{programs}}/asan_clean.c -pthread"
    return Guest(name, ("bash", "-c", f"cd {{made}}; {command}"), make=(("bash", "-c", build),), needs=(compiler,), sampled=sampled)


SERVER_GUESTS = (
    Guest("postgres", ("bash", "{programs}/postgres_session.sh"), needs=("root", "/usr/lib/postgresql/15/bin/postgres"), sampled=2, seconds=200),
    Guest("mariadb", ("bash", "{programs}/mariadb_session.sh"), needs=("root", "mariadbd"), seconds=200, sampled=1),
    Guest("memcached", ("bash", "-c", "chmod 777 .; memcached -u nobody -s $PWD/s -t 2 & p=$!; for i in $(seq 200); do [ -S s ] && break; sleep 0.05; done; python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('s'); f = s.makefile('rwb'); [(f.write(b'set k%d 0 0 3\\r\\nabc\\r\\n' % i), f.flush(), f.readline()) for i in range(20000)]; f.write(b'get k777\\r\\n'); f.flush(); print(f.readline(), f.readline())\"; kill $p; wait $p; echo $?"), needs=("root", "memcached")),
    Guest("lighttpd", ("bash", "-c", "echo \"server.document-root = \\\"$PWD\\\" server.bind = \\\"$PWD/s\\\" server.username = \\\"www-data\\\" server.groupname = \\\"www-data\\\"\" | tr ' ' '\\n' | paste -sd' ' | sed 's/ server/\\nserver/g' > l.conf; seq 50000 > page.txt; chmod 644 page.txt; lighttpd -D -f l.conf & p=$!; for i in $(seq 200); do [ -S s ] && break; sleep 0.05; done; for i in $(seq 20); do curl -s --unix-socket s http://x/page.txt | sha256sum; done | sort | uniq -c; kill $p; wait $p; echo $?; rm -f l.conf s"), needs=("root", "lighttpd", "curl"), may_differ=(r"^\d{4}-.*$\n?",)),
    Guest("apache", ("bash", "{programs}/apache_session.sh"), needs=("root", "/usr/sbin/apache2", "curl"), files_may_differ=("*",)),
    Guest("haproxy", ("bash", "-c", "printf 'global\\n nbthread 2\\ndefaults\\n mode http\\n timeout client 9s\\n timeout server 9s\\n timeout connect 9s\\nfrontend a\\n bind unix@%s/s\\n http-request return status 200 content-type text/plain string hello\\n' $PWD > h.cfg; haproxy -W -f h.cfg & p=$!; for i in $(seq 200); do [ -S s ] && break; sleep 0.05; done; for i in $(seq 20); do curl -s --unix-socket s http://x/; done | sha256sum; kill -USR1 $p; wait $p; echo $?; rm h.cfg; rm -f s"), needs=("haproxy", "curl"), may_differ=(r"^\[(NOTICE|WARNING|ALERT)\].*$\n?",)),
    Guest("a daemon of dbus", ("bash", "-c", "a=$(dbus-daemon --session --fork --print-address 1 --print-pid 1 --address=unix:path=$PWD/bus); p=$(echo \"$a\" | tail -n 1); DBUS_SESSION_BUS_ADDRESS=unix:path=$PWD/bus dbus-send --print-reply --dest=org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus.ListNames | tail -n +2 | grep -c string; kill $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done; rm -f bus"), needs=("dbus-daemon",)),
    *(Guest(name, ("bash", "-c", f"LD_PRELOAD={library} CPUPROFILE=own.prof python3 {{programs}}/plain_work.py; echo $?; rm -f own.prof*"), needs=(library,), may_differ=(r"^PROFILE: .*$\n?",)) for name, library in _ALLOCATORS.items()),
    Guest("gperftools, its own profile", ("bash", "-c", "CPUPROFILE=own.prof LD_PRELOAD=" + _ALLOCATORS["gperftools' profiler preloaded"] + " perl -e '$s += $_ % 7 for 1 .. 9000000; print \"$s\\n\"' 2> said; echo $?; test $(stat -c %s own.prof) -gt 300; echo $?"), needs=(_ALLOCATORS["gperftools' profiler preloaded"], "perl"), files_may_differ=("own.prof", "said")),
    _sanitized("UndefinedBehaviorSanitizer", "-fsanitize=undefined"),
    _sanitized("ThreadSanitizer", "-fsanitize=thread"),
    _sanitized("AddressSanitizer of clang", "-fsanitize=address", compiler="clang"),
    _sanitized("valgrind", "-O1", "valgrind -q --error-exitcode=7 bash -c 'exit 5'; echo $?; valgrind -q --error-exitcode=7 true; echo $?", sampled=0),
    _sanitized("gprof's instrumentation", "-pg", "GMON_OUT_PREFIX=/dev/null ./clean; echo $?"),
    _sanitized("statically linked", "-static -O1", sampled=0),
    _sanitized("stack protector, CET and immediate binding", "-O2 -fstack-protector-all -fcf-protection -Wl,-z,now,-z,relro -D_FORTIFY_SOURCE=2"),
    Guest("AddressSanitizer in a library that Python loads", ("bash", "-c", "echo 'int f(int n) { volatile long s = 0; for (long i = 0; i < 200000000; ++i) s += i % n; return (int)s; }' | gcc -shared -fPIC -fsanitize=address -x c - -o {made}/a.so; ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$(gcc -print-file-name=libasan.so) python3 -c \"import ctypes; print(ctypes.CDLL('{made}/a.so').f(7))\"; echo $?"), needs=("gcc",)),
)  # fmt: skip
