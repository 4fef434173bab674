# A server of our own: tables, queries, and its end.
set -u
mkdir data; chmod 755 .
mariadb-install-db --no-defaults --datadir="$PWD/data" --user=root --auth-root-authentication-method=normal > install.log 2>&1; echo "install $?"
mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$PWD/data/s" --skip-networking --skip-log-error > server.log 2>&1 &
server=$!
for _ in $(seq 600); do [ -S data/s ] && break; sleep 0.05; done
python3 - <<'Y'
import os, socket
print(os.path.exists("data/s"))
Y
kill $server; wait $server; echo "server ends with $?"
rm -rf data install.log server.log
