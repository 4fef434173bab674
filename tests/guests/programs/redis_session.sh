# A redis server of our own: commands, a script, pipelined loads, a background save (fork), and its end.
set -u
socket=$PWD/redis.sock
redis-server --port 0 --unixsocket "$socket" --daemonize no --save '' --appendonly no --dir "$PWD" --logfile "$PWD/redis.log" &
server=$!
for _ in $(seq 300); do redis-cli -s "$socket" ping >/dev/null 2>&1 && break; sleep 0.05; done
ask() { redis-cli -s "$socket" "$@"; }
ask set greeting hello
ask eval 'local s = 0 for i = 1, 3000000 do s = s + i % 7 end return s' 0
for i in $(seq 1 20000); do echo "SET key:$i value-$i"; done | ask --pipe | grep -E 'errors|replies'
ask dbsize
ask sort_ro nothing
ask bgsave
for _ in $(seq 300); do ask info persistence | grep -q 'rdb_bgsave_in_progress:0' && break; sleep 0.05; done
ask info persistence | grep -E 'rdb_last_bgsave_status|rdb_saves'
python3 "$(dirname "$0")/face_of.py" $server
ask shutdown nosave
wait $server
echo "server ends with $?"
