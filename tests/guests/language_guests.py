"""Interpreters, compilers and tools: one program of each, with its runtime's own threads, signals and code generation."""

from __future__ import annotations

from guest import Guest

_FIB = {
    "ruby": "def fib(n) n < 2 ? n : fib(n - 1) + fib(n - 2) end; puts fib(24); puts (1..4).map { |n| Thread.new { fib(16 + n) } }.map(&:value).sum; pid = fork { exit! 7 }; Process.wait pid; puts $?.exitstatus; puts `echo child`; puts Process.getrlimit(:NOFILE).inspect",
    "perl": 'sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) } print fib(23), "\\n"; $SIG{ALRM} = sub { $a++ }; use Time::HiRes "setitimer"; setitimer(0, 0.01, 0.01); my $i = 0; $i++ while ($a < 50); print "alarms\\n"; my $pid = fork; exit 5 unless $pid; waitpid $pid, 0; print $? >> 8, "\\n", `echo child`; $SIG{PROF} = sub { $p++ }; setitimer(2, 0.01, 0.01); $i++ while ($p < 30); setitimer(0, 0); setitimer(2, 0); print "profiled\\n";',
    "php": 'function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(27), PHP_EOL, strlen(shell_exec("echo child")), PHP_EOL; for ($i = 0, $s = ""; $i < 300000; $i++) $s = md5($s); echo $s, PHP_EOL;',
    "lua": 'local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end print(fib(28)) local c = coroutine.wrap(function() for i = 1, 1e5 do coroutine.yield(i) end end) local s = 0 for i = 1, 1e5 do s = s + c() end print(s) print(io.popen("echo child"):read("a"))',
}

_JAVA = """
import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Work {
  static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  static int deep(int n) { return deep(n + 1) + 1; }
  public static void main(String[] words) throws Exception {
    System.out.println(fib(38));
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> all = new ArrayList<>();
    for (int i = 0; i < 40; i++) { final int n = 20 + i % 8; all.add(pool.submit(() -> fib(n))); }
    long sum = 0; for (Future<Long> one : all) sum += one.get();
    pool.shutdown();
    System.out.println(sum + " " + IntStream.range(0, 3000000).parallel().mapToLong(i -> i % 7).sum());
    int overflows = 0; for (int i = 0; i < 20; i++) try { deep(0); } catch (StackOverflowError e) { overflows++; }
    int nulls = 0; String nothing = null; for (int i = 0; i < 50000; i++) try { nothing.length(); } catch (NullPointerException e) { nulls++; }
    System.out.println(overflows + " " + nulls);
    List<byte[]> kept = new ArrayList<>(); for (int i = 0; i < 4000; i++) { kept.add(new byte[100000]); if (kept.size() > 100) kept.clear(); }
    System.out.println(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim());
    System.gc(); Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
    System.exit(3);
  }
}
"""
_RUST = """
use std::{process, thread, panic};
fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
fn main() {
    let all: Vec<_> = (30..36).map(|n| thread::spawn(move || fib(n))).collect();
    println!("{:?}", all.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>());
    println!("{}", panic::catch_unwind(|| panic!("caught")).is_err());
    println!("{:?}", process::Command::new("echo").arg("child").output().unwrap().stdout);
    process::exit(4);
}
"""
_HASKELL_FREE = 'let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)\nlet rec deep n = if n = 0 then 0 else 1 + deep (n - 1)\nlet () = Printf.printf "%d\\n" (fib 36); (try ignore (deep 100_000_000) with Stack_overflow -> print_endline "overflow"); let s = ref 0 in for i = 1 to 5_000_000 do s := !s + Hashtbl.hash (string_of_int i) mod 7 done; Printf.printf "%d\\n" !s\n'
_ERLANG = 'F = fun F(N) when N < 2 -> N; F(N) -> F(N - 1) + F(N - 2) end, P = self(), [spawn(fun() -> P ! F(20 + I) end) || I <- lists:seq(1, 8)], io:format("~p~n", [lists:sum([receive X -> X end || _ <- lists:seq(1, 8)])]), io:format("~s", [os:cmd("echo child")]), halt(2).'
_LISP = "(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (print (fib 32)) (dotimes (i 40) (make-array 2000000)) (gc :full t) (print (handler-case (labels ((deep (n) (1+ (deep n)))) (deep 1)) (sb-kernel::control-stack-exhausted () :exhausted))) (terpri) (sb-ext:exit :code 3)"
_SCHEME = "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (display (fib 30)) (newline) (display (apply + (map string-length (map number->string (iota 300000))))) (newline) (exit 4)"


def _text(name: str, text: str) -> tuple[str, ...]:
    return ("python3", "-c", "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])", name, text)


LANGUAGE_GUESTS = (
    Guest("ruby", ("ruby", "-e", _FIB["ruby"]), needs=("ruby",)),
    Guest("perl", ("perl", "-e", _FIB["perl"]), needs=("perl",)),
    Guest("php", ("php", "-r", _FIB["php"]), needs=("php",)),
    Guest("lua", ("lua5.4", "-e", _FIB["lua"]), needs=("lua5.4",)),
    Guest("luajit", ("luajit", "-e", _FIB["lua"].replace('"a"', '"*a"')), needs=("luajit",)),
    Guest("pypy", ("pypy3", "{programs}/plain_work.py"), needs=("pypy3",)),
    Guest("Python, its own work", ("python3", "{programs}/plain_work.py"), sampled=1),
    Guest("Python's face", ("python3", "{programs}/face.py")),
    Guest(
        "openjdk",
        ("java", "-cp", "{made}", "Work"),
        make=(_text("Work.java", _JAVA), ("javac", "Work.java")),
        needs=("javac",),
        sampled=1,
    ),
    Guest(
        "openjdk, its small heap full",
        ("java", "-Xmx64m", "-XX:+UseSerialGC", "-Xlog:disable", "-cp", "{made}", "Full"),
        make=(
            _text("Full.java", "public class Full { public static void main(String[] w) { java.util.List<int[]> l = new java.util.ArrayList<>(); try { for (;;) l.add(new int[9999]); } catch (OutOfMemoryError e) { l = null; System.out.println(\"full\"); System.exit(9); } } }"),
            ("javac", "Full.java"),
        ),
        needs=("javac",),
    ),
    Guest("rustc", ("bash", "-c", "rustc -O -o work {made}/work.rs && ./work; echo $?"), make=(_text("work.rs", _RUST),), needs=("rustc",), files_may_differ=("work",), may_differ=(r"thread '.*",)),
    Guest(
        "cargo",
        ("bash", "-c", "cp -r {made}/crate . && cd crate && cargo build --offline -q && target/debug/crate; echo $?; rm -rf target"),
        make=(("bash", "-c", "rm -rf crate; mkdir -p crate/src; cp work.rs crate/src/main.rs 2>/dev/null || true"), _text("crate/src/main.rs", _RUST), _text("crate/Cargo.toml", '[package]\nname = "crate"\nversion = "0.1.0"\nedition = "2021"\n')),
        needs=("cargo",),
        may_differ=(r"thread '.*",),
    ),
    Guest("go build", ("bash", "-c", "go build -o work {programs}/pprof.go && ./work"), needs=("go",), environment=(("GOCACHE", "{made}/cache"),), files_may_differ=("work",)),
    Guest("go, statically linked", ("{made}/work",), make=(("env", "CGO_ENABLED=0", "GOCACHE={made}/cache", "go", "build", "-o", "work", "{programs}/pprof.go"),), needs=("go",)),
    Guest("ocaml", ("bash", "-c", "cp {made}/w.ml . && ocamlfind ocamlopt -package str w.ml -o w 2>/dev/null || ocamlopt w.ml -o w; ./w; echo $?; rm -f w*"), make=(_text("w.ml", _HASKELL_FREE),), needs=("ocamlopt",)),
    Guest("erlang", ("erl", "-noshell", "-eval", _ERLANG), needs=("erl",)),
    Guest("sbcl", ("sbcl", "--noinform", "--no-sysinit", "--no-userinit", "--disable-debugger", "--eval", "(progn " + _LISP + ")"), needs=("sbcl",), may_differ=(r"^INFO: .*$", r"0x[0-9A-F]+")),
    Guest("guile", ("guile", "--no-auto-compile", "-c", _SCHEME), needs=("guile",)),
    Guest("swi-prolog", ("swipl", "-g", "numlist(1, 400000, L), foldl([X, A, B] >> (B is A + X mod 7), L, 0, S), writeln(S), halt(3)"), needs=("swipl",)),
    Guest("R", ("Rscript", "-e", "m <- matrix(sin(1:250000), 500); print(round(sum(solve(m + diag(500) * 50)), 6)); f <- function(n) if (n < 2) n else f(n - 1) + f(n - 2); print(f(20)); print(system('echo child', intern = TRUE)); quit(status = 3)"), needs=("Rscript",)),
    Guest("mono", ("mono", "{made}/Work.exe"), make=(_text("Work.cs", "using System; using System.Threading.Tasks; class W { static long F(int n) { return n < 2 ? n : F(n - 1) + F(n - 2); } static int Main() { var all = new Task<long>[6]; for (int i = 0; i < 6; i++) { int n = 25 + i; all[i] = Task.Run(() => F(n)); } Task.WaitAll(all); Console.WriteLine(all[5].Result); int k = 0; string s = null; for (int i = 0; i < 2000; i++) try { k += s.Length; } catch (NullReferenceException) { k++; } Console.WriteLine(k); for (int i = 0; i < 200; i++) new byte[1000000].ToString(); GC.Collect(); return 3; } }"), ("mcs", "-out:Work.exe", "Work.cs")), needs=("mono", "mcs")),
    Guest("gforth", ("gforth", "-e", ": fib dup 2 < if else dup 1- recurse swap 2 - recurse + then ; 30 fib . cr 3 (bye)"), needs=("gforth",)),
    Guest("node, its inspector and a profile of its own", ("bash", "-c", "node --cpu-prof --cpu-prof-name=own.json -e 'const f = n => n < 2 ? n : f(n - 1) + f(n - 2); console.log(f(30))'; test -s own.json; echo $?"), needs=("node",), files_may_differ=("own.json",)),
    Guest("bash pipelines", ("bash", "-c", "seq 300000 | awk '{s += $1 % 7} END {print s}'; seq 200000 | sort -rn | head -n 3; seq 50000 | tr 1 2 | sort -u | wc -l; seq 100000 | gzip | zcat | sha256sum; echo ${PIPESTATUS[*]}; (exit 3) | cat; echo ${PIPESTATUS[*]}; diff <(seq 9) <(seq 8); echo $?")),
    Guest("gcc", ("bash", "-c", "gcc -O2 -c {exotic}/signals.c -o a.o && g++ -x c++ -c - -o b.o <<< $'#include <regex>\\n#include <map>\\nstd::regex r(\"a*b\"); int f(std::map<int, std::regex>& m) { return m.size(); }'; echo $?; gcc -c nothing.c; echo $?"), needs=("g++",)),
    Guest("clang", ("bash", "-c", "clang -O2 -c {exotic}/stacks.c -o a.o; echo $?"), needs=("clang",)),
    Guest("make and cmake", ("bash", "-c", "cp {made}/* . && cmake -S . -B b > /dev/null && make -s -C b -j 2 > /dev/null && b/prog; echo $?; rm -rf b"), make=(_text("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(prog a.c b.c)\n"), _text("a.c", "int b(void); int main(void) { return b(); }\n"), _text("b.c", "int b(void) { return 6; }\n")), needs=("cmake", "make")),
    Guest("git", ("bash", "-c", "export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z HOME=$PWD; g() { git -c user.name=a -c user.email=b@c -c init.defaultBranch=main \"$@\"; }; g init -q r && cd r && for i in $(seq 30); do seq $((i * 100)) > f$i; g add f$i; g commit -qm $i; done; g log --oneline | sha256sum; g gc -q; g fsck; git rev-parse HEAD; cd .. && g clone -q r s && git -C s log --oneline | wc -l; rm -rf r s"), needs=("git",)),
    Guest("sqlite", ("bash", "-c", "sqlite3 a.db \"create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i, hex(i * 7) from n; create index x on t(b); select count(*), sum(length(b)) from t; select count(*) from t a join t b on a.b = b.b; pragma integrity_check;\""), needs=("sqlite3",)),
    Guest("ffmpeg", ("bash", "-c", "ffmpeg -hide_banner -loglevel error -f lavfi -i testsrc=duration=3:size=320x240:rate=25 -f lavfi -i sine=frequency=440:duration=3 -c:v mpeg4 -bitexact -flags +bitexact -threads 2 -c:a ac3 -f matroska -fflags +bitexact out.mkv; echo $?; ffmpeg -hide_banner -loglevel error -i out.mkv -f framemd5 - | tail -n 2"), needs=("ffmpeg",)),
    Guest("openssl", ("bash", "-c", "head -c 30000000 /dev/zero | openssl enc -aes-256-cbc -K 00 -iv 00 2> /dev/null | openssl dgst -sha512; openssl prime 1000000007; openssl genrsa 1024 2> /dev/null | wc -l"), needs=("openssl",)),
    Guest("xz, zstd", ("bash", "-c", "seq 400000 | xz -T2 -3 | xz -d | sha256sum; seq 900000 | zstd -T2 -q | zstd -dq | sha256sum"), needs=("xz", "zstd")),
    Guest("rsync", ("bash", "-c", "mkdir a; for i in $(seq 200); do seq $i > a/$i; done; rsync -a a/ b/; diff -r a b; echo $?"), needs=("rsync",)),
    Guest("stress-ng", ("stress-ng", "--quiet", "--timeout", "3", "--cpu", "1", "--fork", "1", "--pthread", "1", "--sigsegv", "1", "--switch", "1", "--temp-path", "."), needs=("stress-ng",)),
    Guest("apt-get", ("bash", "-c", "apt-get --version | head -n 1; apt-cache stats > /dev/null; echo $?; dpkg-query -W | wc -l"), needs=("apt-get",)),
    Guest("tar and find", ("bash", "-c", "find /usr/share/perl | sort | sha256sum; tar -C /usr/share/perl -cf - . | tar -tf - | wc -l"), needs=("tar",)),
)  # fmt: skip
