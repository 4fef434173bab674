"""The ten real programs that `make test` records."""

from __future__ import annotations

from guest import Guest

CI_GUESTS = (
    Guest("jax", ("{python}", "{programs}/jax_train.py"), needs=("import jax",), sampled=1),
    Guest("gevent", ("{python}", "{programs}/gevent_pool.py"), needs=("import gevent",), sampled=1),
    Guest("uvicorn under httpx", ("{python}", "{programs}/uvicorn_client.py"), needs=("import uvicorn, httpx",), sampled=2),
    Guest("ipykernel", ("{python}", "{programs}/notebook.py"), needs=("import ipykernel, jupyter_client",), sampled=2),
    Guest("node", ("node", "{programs}/node_work.js"), needs=("node",), sampled=1),
    Guest(
        "go with pprof",
        ("{made}/pprof",),
        make=(("go", "build", "-ldflags=-linkmode=external", "-o", "pprof", "{programs}/pprof.go"),),
        needs=("go",),
        environment=(("GOCACHE", "{made}/cache"), ("GOFLAGS", "-mod=mod")),
        sampled=1,
    ),
    Guest(
        "redis",
        ("bash", "{programs}/redis_session.sh"),
        needs=("redis-server",),
        files_may_differ=("redis.log", "dump.rdb"),
        sampled=1,
    ),
    Guest(
        "nginx as root",
        ("python3", "{programs}/nginx_session.py"),
        needs=("nginx", "root"),
        files_may_differ=("logs/*", "nginx.conf", "nginx.pid"),
        sampled=4,
    ),
    Guest(
        "AddressSanitizer",
        ("{made}/clean",),
        make=(("gcc", "-g", "-fsanitize=address", "-o", "clean", "{programs}/asan_clean.c", "-pthread"),),
        needs=("gcc",),
        sampled=1,
    ),
    Guest(
        "AddressSanitizer's report",
        ("{made}/clean", "freed"),
        make=(("gcc", "-g", "-fsanitize=address", "-o", "clean", "{programs}/asan_clean.c", "-pthread"),),
        needs=("gcc",),
        may_differ=(r"==\d+==", r"0x[0-9a-f]+", r" [0-9a-f][0-9a-f](?=[ \]\[]|$)"),
        sampled=1,
    ),
    Guest(
        "memray",
        ("{python}", "{programs}/memray_check.py"),
        needs=("import memray",),
        files_may_differ=("allocations.bin",),
        sampled=1,
    ),
)
