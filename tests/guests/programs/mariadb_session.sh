# A server of our own: its tables are made, queries run from a file when it starts, and its end.
set -u
mkdir data; chmod 755 .
share=/usr/share/mysql
server() { exec mariadbd --no-defaults --user=root --datadir="$PWD/data" --lc-messages-dir=$share --skip-networking "$@"; }
{ printf "%s;\n" "create database mysql" "create database test" "use mysql"; cat $share/mysql_system_tables.sql $share/mysql_system_tables_data.sql; } > make.sql
(server --bootstrap < make.sql > install.log 2>&1); echo "made $?"
cat > work.sql <<Y
use test;
create table t (i int primary key, m char(32));
insert into t select seq, md5(seq) from seq_1_to_60000;
select count(*), max(m) from t where m like '%7%' into outfile '$PWD/data/found';
select count(*) from t a join t b on a.i = b.i where a.m < b.m or a.i % 7 = 0 into outfile '$PWD/data/joined';
Y
(server --skip-grant-tables --socket="$PWD/data/s" --init-file="$PWD/work.sql" > server.log 2>&1) &
shell=$!
for _ in $(seq 200); do [ -S data/s ] && [ -s data/joined ] && break; sleep 0.05; done
cat data/found data/joined
kill "$(cat data/*.pid)"; wait $shell; echo "server ends with $?"
grep -c 'got signal' server.log
rm -rf data install.log server.log make.sql work.sql
