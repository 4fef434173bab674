"""Python's packages: servers, compilers, profilers, debuggers, and packages that compute in threads and processes of their own."""

from __future__ import annotations

from guest import Guest

PRELUDE = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
_TIMES = r"\d+\.\d+"


def _code(
    name: str,
    package: str,
    code: str,
    *,
    may_differ: tuple[str, ...] = (),
    seconds: float = 120,
    sampled: int = 1,
    env: tuple[tuple[str, str], ...] = (),
) -> Guest:
    return Guest(
        name,
        ("{python}", "-c", PRELUDE + code),
        needs=(f"import {package}",),
        may_differ=may_differ,
        seconds=seconds,
        sampled=sampled,
        environment=env,
    )


def _shell(
    name: str,
    package: str,
    script: str,
    *,
    may_differ: tuple[str, ...] = (),
    files_may_differ: tuple[str, ...] = (),
    seconds: float = 120,
    sampled: int = 1,
) -> Guest:
    script = (
        f"cat > work.py <<'X'\n{PRELUDE}import sys, threading\nt = threading.Thread(target=fib, args=(21,)); t.start(); t.join()\nprint(fib(25))\nsys.exit(4)\nX\n"
        + script
    )
    return Guest(
        name,
        ("bash", "-c", script),
        needs=(f"import {package}",),
        may_differ=may_differ,
        files_may_differ=files_may_differ,
        seconds=seconds,
        sampled=sampled,
    )


PYTHON_GUESTS = (
    _code("numba", "numba", "import numba, numpy\n@numba.njit(parallel=True)\ndef f(a):\n  s = 0.0\n  for i in numba.prange(a.size): s += a[i] % 7\n  return s\nprint(f(numpy.arange(5e6)))\n@numba.vectorize\ndef g(x): return x * x\nprint(g(numpy.arange(10)).sum())"),
    _code("uvloop", "uvloop", "import asyncio, uvloop\nasync def serve(r, w):\n  while (d := await r.read(4096)): w.write(d[::-1]); await w.drain()\nasync def ask(p, i):\n  r, w = await asyncio.open_connection('127.0.0.1', p); w.write(str(i).encode() * 50); x = await r.readexactly(len(str(i)) * 50); w.close(); fib(10); return len(x)\nasync def main():\n  s = await asyncio.start_server(serve, '127.0.0.1', 0); p = s.sockets[0].getsockname()[1]\n  print(sum(await asyncio.gather(*(ask(p, i) for i in range(300)))))\n  q = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1); print(await q.communicate(), q.returncode)\n  print(await asyncio.get_running_loop().run_in_executor(None, fib, 20))\nuvloop.run(main())"),
    _code("ray", "ray", "import ray, os\nray.init(num_cpus=2, logging_level='ERROR', include_dashboard=False, log_to_driver=False, _temp_dir='/tmp/ray-guest')\n@ray.remote\ndef f(n): return fib(n)\n@ray.remote\nclass C:\n  def __init__(self): self.n = 0\n  def add(self): self.n += 1; return self.n\nprint(ray.get([f.remote(18 + i % 3) for i in range(8)]))\nc = C.remote(); print(ray.get([c.add.remote() for _ in range(20)])[-1])\nray.shutdown()", may_differ=(r"^.*(ray|Ray|raylet|core_worker|warn|FutureWarning).*$\n?",), seconds=240),
    _code("dask", "distributed", "if __name__ == '__main__':\n  from dask.distributed import Client, LocalCluster\n  with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as k, Client(k) as c:\n    print(c.submit(sum, [1, 2]).result(), sum(c.gather(c.map(pow, range(100), [2] * 100))))", may_differ=(r"^.*(distributed|INFO|WARNING).*$\n?",), seconds=240),
    Guest("gunicorn", ("{python}", "{programs}/gunicorn_session.py"), needs=("import gunicorn, httpx",), seconds=120, sampled=2),
    _code("multiprocessing's managers", "numpy", "import multiprocessing as m\nif __name__ == '__main__':\n  with m.get_context('forkserver').Manager() as g:\n    l = g.list(); ps = [m.get_context('fork').Process(target=lambda i=i: l.append(fib(15 + i))) for i in range(4)]\n    [p.start() for p in ps]; [p.join() for p in ps]; print(sorted(l), [p.exitcode for p in ps])\n  from multiprocessing import shared_memory\n  s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()"),
    _shell("scalene", "scalene", "python -m scalene run --cpu-only -o prof.json work.py > said 2>&1; echo $?; grep -c 75025 said; test -s prof.json; echo $?", files_may_differ=("prof.json", "said")),
    _shell("coverage", "coverage", "python -m coverage run --branch work.py; echo $?; python -m coverage report", files_may_differ=(".coverage",)),
    _shell("debugpy", "debugpy", "python - <<'Y'\nimport debugpy, subprocess, sys\np = subprocess.Popen([sys.executable, '-m', 'debugpy', '--listen', '127.0.0.1:0', 'work.py'], stdout=-1, stderr=-1)\no, e = p.communicate(timeout=100); print(o, p.returncode, b'Error' in e)\nY"),
    _shell("pdb", "numpy", "printf 'b fib\\nc\\np n\\ncl 1\\nc\\nq\\n' | python -m pdb work.py; echo $?"),
    _shell("cProfile", "numpy", "python -m cProfile -s ncalls work.py | head -n 1; python -m cProfile -o out work.py; echo $?; python -m trace --count --summary work.py | grep -c work", files_may_differ=("out",)),
    _shell("pyinstrument", "pyinstrument", "python -m pyinstrument -r json -o out.json work.py; echo $?; test -s out.json; echo $?", files_may_differ=("out.json",)),
    _shell("viztracer", "viztracer", "python -m viztracer -q --output_file out.json work.py; echo $?; test -s out.json; echo $?", files_may_differ=("out.json",), seconds=200),
    _shell("py-spy record", "psutil", "echo \"open('begun', 'w').close(); import time; until = time.time() + 2; [fib(15) for _ in iter(lambda: time.time() < until, False)]\" >> work.py; sed -i 's/^sys.exit.*//' work.py; python work.py > said & until [ -e begun ]; do sleep 0.05; done; py-spy record -d 1 -r 50 -f raw -o out --pid $! > spy 2>&1; echo $?; wait; grep -c 75025 said; test -s out; echo $?", files_may_differ=("out", "said", "spy")),
    _shell("line_profiler", "line_profiler", "python -m kernprof -l -o out.lprof work.py > said; echo $?; grep 75025 said", files_may_differ=("out.lprof", "said")),
    _shell("tracemalloc and faulthandler", "numpy", "python -X tracemalloc=5 -X faulthandler -X dev work.py; echo $?; python -X faulthandler -c 'import ctypes; ctypes.string_at(0)' 2> err; echo $?; head -n 1 err; python -c \"import faulthandler, time; faulthandler.dump_traceback_later(0.1); time.sleep(0.3); faulthandler.cancel_dump_traceback_later()\" 2>&1 | grep -c File", files_may_differ=("err",), may_differ=(r"^bash: line .*$",)),
    _code("pandas", "pandas", "import pandas as p, numpy as n\nd = p.DataFrame({'a': n.arange(400000) % 997, 'b': n.arange(400000.0)})\nprint(d.groupby('a').b.mean().sum(), d.merge(d.head(1000), on='a').shape, d.sort_values('b', ascending=False).iloc[0].to_dict())"),
    _code("polars", "polars", "import polars as p\nd = p.DataFrame({'a': [i % 97 for i in range(300000)], 'b': list(range(300000))})\nprint(d.group_by('a').agg(p.col('b').sum()).sort('a').head(3).rows(), d.lazy().filter(p.col('b') % 3 == 0).select(p.col('b').sum()).collect().item())"),
    _code("pyarrow", "pyarrow", "import pyarrow as a, pyarrow.compute as c, pyarrow.parquet as q\nt = a.table({'a': list(range(300000)), 'b': [str(i) for i in range(300000)]}); q.write_table(t, 'x.parquet', compression='zstd'); print(c.sum(q.read_table('x.parquet')['a']))"),
    _code("duckdb", "duckdb", "import duckdb\nprint(duckdb.sql('select sum(a % 7), count(distinct a % 1000) from range(3000000) t(a)').fetchall())"),
    _code("scikit-learn", "sklearn", "from sklearn.ensemble import RandomForestClassifier as R\nfrom sklearn.datasets import make_classification as m\nfrom sklearn.model_selection import cross_val_score as s\nif __name__ == '__main__':\n  x, y = m(600, random_state=0); print(s(R(30, random_state=0, n_jobs=2), x, y, n_jobs=2).round(6).tolist())", may_differ=(r"^.*(Warning|warn).*$\n?",)),
    _code("scipy", "scipy", "import numpy as n, scipy.linalg as l, scipy.optimize as o, scipy.sparse as s, scipy.fft as f\na = n.random.default_rng(0).random((500, 500)); print(round(float(l.svdvals(a).sum()), 6), o.minimize(lambda x: ((x - 3) ** 2).sum(), n.zeros(20)).x.round(4).sum(), round(abs(f.fft(a)).sum(), 3))"),
    _code("numpy and OpenBLAS' threads", "numpy", "import numpy as n, threading, os\na = n.random.default_rng(0).random((900, 900)); print(round(float((a @ a).sum()), 3), round(float(n.linalg.inv(a).sum()), 3))\nif not os.fork(): print(round(float((a @ a).sum()), 3), flush=True); os._exit(0)\nprint(os.wait()[1])"),
    _code("xgboost", "xgboost", "import xgboost as x, numpy as n\nr = n.random.default_rng(0); a = r.random((3000, 20)); b = (a[:, 0] > a[:, 1]).astype(int); m = x.XGBClassifier(n_estimators=30, n_jobs=2).fit(a, b); print((m.predict(a) == b).mean())"),
    _code("lightgbm", "lightgbm", "import lightgbm as x, numpy as n\nr = n.random.default_rng(0); a = r.random((3000, 20)); b = (a[:, 0] > a[:, 1]).astype(int); m = x.LGBMClassifier(n_estimators=30, n_jobs=2, verbose=-1).fit(a, b); print((m.predict(a) == b).mean())", may_differ=(r"^.*(Warning|warn).*$\n?",)),
    _code("torch", "torch", "import torch\ntorch.manual_seed(0); m = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4)); o = torch.optim.Adam(m.parameters())\nfor _ in range(60):\n  o.zero_grad(); l = (m(torch.randn(256, 64)) ** 2).mean(); l.backward(); o.step()\nprint(round(l.item(), 5)); c = torch.nn.Conv2d(3, 16, 3); print(round(c(torch.ones(8, 3, 64, 64)).sum().item(), 2))"),
    _code("torch's DataLoader workers", "torch", "import torch\nclass D(torch.utils.data.Dataset):\n  def __len__(self): return 200\n  def __getitem__(self, i): return torch.tensor(fib(10 + i % 8))\nif __name__ == '__main__':\n  print(sum(b.sum().item() for b in torch.utils.data.DataLoader(D(), 20, num_workers=2, persistent_workers=True)))\n  try: list(torch.utils.data.DataLoader([1, None], 2, num_workers=1))\n  except (TypeError, RuntimeError) as e: print('raised')", sampled=3),
    _code("torch.compile", "torch", "import torch\n@torch.compile\ndef f(x): return torch.sin(x) * 2 + torch.cos(x).sum()\nprint(round(f(torch.arange(1000.0)).sum().item(), 1))", seconds=240, env=(("TORCHINDUCTOR_CACHE_DIR", "{made}/inductor"),)),
    _code("torch.profiler", "torch", "import torch\nwith torch.profiler.profile(with_stack=True) as p: (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item()\nprint(any('mm' in e.key for e in p.key_averages()))", may_differ=(r"^.*(WARN|warn|STAGE|INFO|USDT).*$\n?",)),
    _code("torch distributed, gloo", "torch", "import os, torch, torch.distributed as d, torch.multiprocessing as m\ndef w(r, p):\n  d.init_process_group('gloo', init_method=p, rank=r, world_size=2); t = torch.ones(1000) * (r + 1); d.all_reduce(t); os.write(1, f'{r} {t.sum().item()}\\n'.encode()); d.destroy_process_group()\nif __name__ == '__main__':\n  import tempfile; f = 'file://' + tempfile.mktemp(); c = m.get_context('fork'); ps = [c.Process(target=w, args=(i, f)) for i in range(2)]; [(p.start()) for p in ps]; [p.join() for p in ps]; print([p.exitcode for p in ps])", may_differ=(r"^(0|1) 3000.0\n", r"^.*\[(Gloo|W|rank).*$\n?")),
    _code("transformers, a tiny model", "transformers", "import torch\nfrom transformers import GPT2Config as C, GPT2LMHeadModel as M\ntorch.manual_seed(0); m = M(C(n_layer=2, n_head=2, n_embd=64, vocab_size=500, bos_token_id=0, eos_token_id=1)).eval(); print(m.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=30, do_sample=False, pad_token_id=1).tolist())\nl = m(torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss; l.backward(); print(round(l.item(), 4))", may_differ=(r"^.*(Warning|warn|Setting).*$\n?",), seconds=240),
    _code("tensorflow", "tensorflow", "import os\nimport tensorflow as t\nt.random.set_seed(0); x = t.constant([[1.0, 2], [3, 4]])\n@t.function\ndef f(x):\n  for _ in range(50): x = t.tanh(x @ x)\n  return x\nprint(f(x).numpy().round(4).tolist())\nm = t.keras.Sequential([t.keras.layers.Dense(8), t.keras.layers.Dense(1)]); m.compile('sgd', 'mse'); m.fit(t.ones((64, 4)), t.zeros((64, 1)), epochs=2, verbose=0); print(len(m.weights))", may_differ=(r"^.*(tensorflow|TF_|WARNING|I0000|E0000|W0000|cuda|oneDNN|To enable).*$\n?",), seconds=300),
    _code("onnxruntime", "onnxruntime", "import onnxruntime as o\nprint(o.get_available_providers()[-1], o.SessionOptions().intra_op_num_threads, fib(24))"),
    _code("OpenCV", "cv2", "import cv2, numpy as n\na = n.arange(3 * 600 * 800, dtype=n.uint8).reshape(600, 800, 3); print(int(cv2.GaussianBlur(a, (31, 31), 5).sum()), len(cv2.imencode('.png', a)[1]), int(cv2.resize(a, (99, 77)).sum()))"),
    _code("matplotlib", "matplotlib", "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as p\nf, a = p.subplots(); a.plot(range(1000)); f.savefig('x.png', metadata={'Software': None}); print(len(open('x.png', 'rb').read()) > 1000)", env=(("MPLCONFIGDIR", "{made}/mpl"),)),
    _code("joblib and loky", "joblib", "import joblib\nif __name__ == '__main__': print(sum(joblib.Parallel(2)(joblib.delayed(pow)(i, 2) for i in range(200))), sum(joblib.Parallel(2, 'threading')(joblib.delayed(fib)(15) for i in range(20))))"),
    _code("grpc", "grpc", "import grpc, concurrent.futures as c\nh = grpc.method_handlers_generic_handler('a', {'b': grpc.unary_unary_rpc_method_handler(lambda r, x: r[::-1])})\ns = grpc.server(c.ThreadPoolExecutor(4)); s.add_generic_rpc_handlers((h,)); p = s.add_insecure_port('127.0.0.1:0'); s.start()\nwith grpc.insecure_channel(f'127.0.0.1:{p}') as k: print(sum(len(k.unary_unary('/a/b')(b'x' * i)) for i in range(200)))\ns.stop(0).wait()", may_differ=(r"^[IWE]0000.*$\n?",)),
    _code("eventlet", "eventlet", "import eventlet\np = eventlet.GreenPool(50)\ndef f(i): eventlet.sleep(0.001); return fib(10 + i % 5)\nprint(sum(p.imap(f, range(300))))\nfrom eventlet import tpool\nprint(tpool.execute(fib, 20))", may_differ=(r"^.*(eventlet|Eventlet|import|Warning).*$\n?", r"^\s*$\n")),
    _code("tornado and aiohttp", "aiohttp, tornado", "import asyncio, aiohttp.web as w, aiohttp, tornado.web, tornado.httpserver, tornado.netutil\nasync def h(r): return w.json_response({'n': fib(int(r.query['n']))})\nclass T(tornado.web.RequestHandler):\n  def get(self): self.write(str(fib(int(self.get_argument('n')))))\nasync def main():\n  a = w.Application(); a.router.add_get('/', h); r = w.AppRunner(a); await r.setup(); s = w.TCPSite(r, '127.0.0.1', 0); await s.start(); p = s._server.sockets[0].getsockname()[1]\n  k = tornado.netutil.bind_sockets(0, '127.0.0.1'); tornado.httpserver.HTTPServer(tornado.web.Application([('/', T)])).add_sockets(k); q = k[0].getsockname()[1]\n  async with aiohttp.ClientSession() as c:\n    for port in (p, q):\n      async def get(i):\n        async with c.get(f'http://127.0.0.1:{port}/?n={i % 12}') as x: return len(await x.read())\n      print(sum(await asyncio.gather(*(get(i) for i in range(150)))))\n  await r.cleanup()\nasyncio.run(main())"),
    _code("flask and its reloader's child", "flask", "import flask\na = flask.Flask('a')\n@a.get('/<int:n>')\ndef f(n): return str(fib(n))\nc = a.test_client(); print(sum(int(c.get(f'/{n}').data) for n in range(18)))"),
    _shell("celery", "celery", "cat > tasks.py <<'Y'\nfrom celery import Celery\napp = Celery(broker='filesystem://', backend='file://' + __import__('os').getcwd() + '/results')\napp.conf.broker_transport_options = {'data_folder_in': 'q', 'data_folder_out': 'q', 'control_folder': 'control'}\n@app.task\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nY\nmkdir q results control; python -m celery -A tasks worker -c 2 -l error --without-gossip --without-mingle > log 2>&1 & w=$!; python -c 'from tasks import fib; r = [fib.delay(n) for n in range(12)]; print([x.get(timeout=100) for x in r])'; kill -TERM $w; wait $w; echo $?; rm -rf results q control __pycache__", files_may_differ=("log",), seconds=200),
    _shell("pytest with xdist", "xdist", "cat > test_a.py <<'Y'\nimport pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_a(n): assert n != 7\nY\npython -m pytest -q -n 2 -p no:cacheprovider test_a.py 2>&1 | tail -n 2; echo ${PIPESTATUS[0]}; rm -rf __pycache__", may_differ=(r"in [\d.]+s",)),
    _shell("pip and venv", "psutil", "python -m venv v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'; v/bin/python -m pip --version | cut -d' ' -f1; rm -rf v", seconds=200),
    _shell("uv and ruff", "psutil", "uv --version > said; echo $?; printf 'import os\\nx=1\\n' > a.py; ruff check --no-cache -q a.py; echo $?; ruff format --no-cache -q a.py; cat a.py", files_may_differ=("said",)),
    _code("pexpect, a terminal of its own", "pexpect", "import pexpect\np = pexpect.spawn('python3 -q', encoding='utf8', timeout=60); p.expect('>>> '); p.sendline('sum(range(100000))'); p.expect('4999950000'); p.expect('>>> '); p.sendintr(); p.expect('KeyboardInterrupt'); p.sendline('exit(5)'); p.expect(pexpect.EOF); p.close(); print(p.exitstatus, p.signalstatus)"),
    _code("psutil", "psutil", "import psutil\np = psutil.Process(); print(len(p.open_files()), p.num_threads(), [c.name() for c in p.children()], p.nice(), len(p.net_connections()))"),
    _code("lxml and sqlalchemy", "lxml.etree, sqlalchemy", "from lxml import etree as e\nr = e.fromstring('<a>' + '<b c=\"1\">x</b>' * 50000 + '</a>'); print(len(r.xpath('//b[@c=1]')))\nimport sqlalchemy as s\nn = s.create_engine('sqlite://'); k = n.connect(); print(k.execute(s.text('select 6 * 7')).scalar(), fib(23))"),
    _code("django", "django", "import django\nfrom django.conf import settings as s\ns.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, INSTALLED_APPS=['django.contrib.auth', 'django.contrib.contenttypes']); django.setup()\nfrom django.core.management import call_command as c\nc('migrate', verbosity=0)\nfrom django.contrib.auth.models import User as U\n[U.objects.create_user(f'u{i}') for i in range(30)]; print(U.objects.count())"),
    _code("subinterpreters and ctypes' callbacks", "ctypes", "import ctypes\nl = ctypes.CDLL(None); f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)); a = (ctypes.c_int * 20000)(*((i * 7919) % 20011 for i in range(20000))); l.qsort(a, 20000, 4, f(lambda x, y: x[0] - y[0])); print(list(a[:5]))\ntry:\n  import _xxsubinterpreters as x\n  i = x.create(); x.run_string(i, 'print(sum(range(100000)))'); x.destroy(i)\nexcept ImportError: print(4999950000)"),
    _code("readers of core dumps: a crash", "ctypes", "import ctypes, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0)); fib(22); print('dies', flush=True); ctypes.string_at(8)"),
    _code("os.abort, a thread that raises", "ctypes", "import threading, os\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); fib(22); print('aborts', flush=True); import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()"),
)  # fmt: skip
