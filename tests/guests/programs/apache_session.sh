# Apache started as root, with workers of another user: answers, a graceful restart, and its end.
set -u
chmod 755 .
mkdir logs pages; seq 30000 > pages/text; chmod 755 pages logs
modules=/usr/lib/apache2/modules
cat > httpd.conf <<Y
ServerRoot $PWD
ServerName localhost
Listen 127.0.0.1:48753
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
User www-data
Group www-data
PidFile logs/pid
ErrorLog logs/error
DocumentRoot $PWD/pages
DefaultRuntimeDir logs
Y
/usr/sbin/apache2 -f "$PWD/httpd.conf" -D FOREGROUND &
server=$!
ask() { curl -s --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 30 http://127.0.0.1:48753/text | sha256sum; }
for _ in $(seq 40); do ask; done | sort | uniq -c
kill -USR1 $server; sleep 1
ask
kill -WINCH $server; wait $server; echo "apache ends with $?"
grep -cE 'exit signal|Segmentation' logs/error
