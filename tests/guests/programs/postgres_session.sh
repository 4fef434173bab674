# A cluster of our own, started as root for the user that owns it: queries, parallel workers, a function, an abort, and its end.
set -u
bin=/usr/lib/postgresql/15/bin
chmod 755 . ; mkdir data; chown postgres data
as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
as $bin/initdb -D data -A trust --no-sync > initdb.log 2>&1; echo "initdb $?"
as $bin/postgres -D data -k "$PWD/data" -c listen_addresses= -c fsync=off > server.log 2>&1 &
server=$!
for _ in $(seq 600); do $bin/pg_isready -q -h "$PWD/data" && break; sleep 0.05; done
ask() { $bin/psql -h "$PWD/data" -U postgres -Atc "$1" postgres; }
ask "create table t as select i, md5(i::text) m from generate_series(1, 150000) i"
ask "set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; select count(*), max(m) from t where m like '%7%'"
ask "create index on t(m); analyze t; select count(*) from t a join t b using (m)"
ask "select pg_terminate_backend(pg_backend_pid())" 2>/dev/null; echo "terminated $?"
ask "select 1 / 0" 2>&1
ask "select sum(i) from t"
kill -INT $(head -n 1 data/postmaster.pid); wait $server; echo "server ends with $?"
grep -cE 'PANIC|FATAL:  .*(crash|abnormal)|terminated by signal' server.log
rm -rf data initdb.log server.log
