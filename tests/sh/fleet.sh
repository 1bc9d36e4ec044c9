#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A fleet end to end on this machine, with the real programs: a board tunes and pushes, another pulls; hone-fleet alone with TLS on
# SQLite, then two instances on PostgreSQL behind nginx with mutual TLS, killed and started again under load.
#	fleet.sh BUILD			runs the test
#	fleet.sh BUILD --pull		shares a minute of one board with a box of 2 s on another (MODEL=mobilenet_v2)
#	fleet.sh BUILD --polls		measures conditional polls a second through nginx
#	fleet.sh BUILD --load		measures batches through nginx, by mutual TLS, into two instances on PostgreSQL
b=$(cd "$1" && pwd) mode=$2 good=0 bad=0 skipped=0
dir=$(mktemp -d) alone='' one='' two='' nginx='' postgres='' load=''
export HOME="$dir" HONE_SOCKET=/dev/null/honed.sock
unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY

end() {
	for pid in $load $alone $one $two $nginx; do kill "$pid" 2>/dev/null; done
	[ -z "$postgres" ] || kill -INT "$postgres"
	wait
	rm -rf "$dir"
} 2>/dev/null
trap end EXIT
trap 'exit 1' INT TERM HUP

check() { # what, command...
	what=$1 start=$(date +%s)
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "fleet: not so: $what"
		tail -n 20 "$dir/said" | sed 's/^/	/'
	fi
	[ -z "$TEST_TIMES" ] || echo "$(($(date +%s) - start)) s  $what"
}
skip() {
	skipped=$((skipped + 1))
	echo "skip: $1"
}
# Repeats a command until it succeeds, for $1 seconds at most.
within() {
	until=$(($(date +%s) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt $until ] || { "$@"; return 1; }
		sleep 0.1
	done
}
# Reads "after_ms": 1.23 from hone's JSON.
number() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" | head -n 1; }

# Starts the server. $1: name of its log; further options replace those below. Its pid is in $server.
serve() {
	log=$dir/$1.log
	shift
	: >"$log"
	"$b/hone-fleet" serve --keys "$dir/keys" --publish "$dir/publish" --every 1s --stage 0s --board-day 100000 --board-bytes 1024G --all-bytes 1024G "$@" 2>>"$log" &
	server=$!
}
listens() { port=$(sed -n 's|.*listens on https*://[^,]*:\([0-9]*\),.*|\1|p' "$1") && [ -n "$port" ]; }
ends_well() { # pid...
	kill "$@" && for pid in "$@"; do wait "$pid" || return; done
}

# Boards: each has its own cache, state and identity.
board() { # name, server, token
	mkdir -p "$dir/$1/state"
	echo "$3" >"$dir/$1/token"
	cat >"$dir/$1/honed.conf" <<END
[honed]
cache = $dir/$1/cache
[sync]
server = $2
ca = $dir/keys/ca.pem
root = $dir/keys/root.signed
state = $dir/$1/state
token = $dir/$1/token
channel = canary
upload = yes
END
}
sync() { "$b/hone-sync" --config "$dir/$1/honed.conf" --now -v; }
# The first sync enrols, reads and sends; a later one gets what is published of that.
pushes() { sync "$1" 2>&1 | tee /dev/stderr | grep -q ' [1-9][0-9]* sent;'; }
pulls() { sync "$1" 2>&1 | tee /dev/stderr | grep -q ' [1-9][0-9]* records taken,'; }
tune() { "$b/hone" tune "$dir/net.onnx" --cache "$dir/$1/cache" --budget "$2" --json 2>/dev/null >"$dir/$1.json" && [ -s "$dir/$1.json" ]; }
# Counts tasks whose fastest kernel is the same schedule in both caches.
kept() {
	for i in "$1" "$2"; do
		"$b/hone" show --json --cache "$dir/$i/cache" 2>/dev/null | tr '{' '\n' | grep '"record_kind":"best"' |
			sed -n 's/.*"task_key":"\([0-9a-f]*\)".*"cand":"\([^"]*\)".*/\1 \2/p' | sort -u >"$dir/$i.best"
	done
	comm -12 "$dir/$1.best" "$dir/$2.best" | wc -l
}
same_kernels() { # the second board found nothing that good by itself, but may have found better
	[ "$(kept "$1" "$2")" -ge 1 ] || { cat "$dir/$1.best" "$dir/$2.best"; return 1; }
}
# The second board's box took 2 s (and what its end takes on a busy machine), and in runs by turns its network is not
# slower than the first one's by more than 5 %. A box that says that others used the processors is given again, twice
# at most; after three of them there is no answer, which is a skip.
reaches() { # first, second
	for box in 1 2 3; do
		tune "$2" 2s && number elapsed_s <"$dir/$2.json" | awk '{ exit !($1 < 4) }' || return
		as_fast "$1" "$2" && return
		grep -q '"disturbed":"' "$dir/$2.json" || return
	done
	: >"$dir/busy"
}
as_fast() {
	"$b/hone" bench "$dir/net.onnx" --cache "$dir/$1/cache" --cache "$dir/$2/cache" --json 2>/dev/null | tr '{' '\n' | tee "$dir/turns" |
		sed -n 's/^"time_ratio":[0-9.]*,"time_low":\([0-9.]*\),"time_high":[0-9.]*}.*/\1/p' | awk '{ n++; good = $1 <= 1.05 } END { exit !(n == 1 && good) }' ||
		{ grep '^"time_ratio"' "$dir/turns"; return 1; }
}
say_speed() { # for people: a busy machine times what it will
	echo "fleet: first board: $(number before_ms <"$dir/$1.json") to $(after $1) ms; second board, 2 s: to $(after $2) ms; $(kept "$1" "$2") of" \
		"$(wc -l <"$dir/$1.best") kernels are the first one's"
}
after() { number after_ms <"$dir/$1.json"; }

keys() {
	"$b/hone-fleet" init -q --keys "$dir/keys" --host localhost >/dev/null && chmod 755 "$dir"
}
token() { "$b/hone-fleet" token -q --db "$1" --uses 100; }

on_sqlite() {
	db=$dir/fleet.db
	serve alone --listen 127.0.0.1:0 --db "$db" --cert "$dir/keys/server.pem" --key "$dir/keys/server.key"
	alone=$server
	check "hone-fleet serves" within 20 listens "$dir/alone.log"
	check "a token" eval 'token=$(token "$db") && [ -n "$token" ]'
	board first "https://localhost:$port/v1" "$token"
	board second "https://localhost:$port/v1" "$token"
	board stranger "https://localhost:$port/v1" "not-a-token"
	check "a board tunes for $1" tune first "$1"
	check "it enrols and pushes" pushes first
	check "another one pulls" within 20 pulls second
	check "it reaches in 2 s what took the first $1" reaches first second
	if [ -e "$dir/busy" ]; then
		good=$((good - 1))
		skip "others used the processors in three boxes of 2 s"
	fi
	mkdir -p "$dir/none"
	check "a board without kernels does not" eval '! as_fast first none'
	check "with the kernels of the first" same_kernels first second
	say_speed first second
	check "a stranger is refused" eval '! sync stranger'
	check "the server ends well" ends_well $alone
	alone=
}

# PostgreSQL and nginx.
psql() { "$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)/psql" -h "$dir/pg" -U hone -d postgres -XAtqc "$1"; }
start_postgres() {
	mkdir -p "$dir/pg"
	sh tests/sh/postgres.sh "$dir/pg" &
	postgres=$!
	within 30 eval 'psql "SELECT 1" || ! kill -0 $postgres' && psql 'SELECT 1'
}
free_port() {
	port=$(($(od -An -N2 -tu2 /dev/urandom) % 12000 + 20000))
	! grep -qi ":$(printf '%04X' $port) " /proc/net/tcp /proc/net/tcp6
}
some_port() { until free_port; do :; done; }
# Adapts ports and folders of configs/nginx/hone-fleet.conf to this machine.
start_nginx() {
	some_port && tls=$port && some_port && plain=$port
	sed "s|/var/lib/hone-fleet/|$dir/|; s|listen 443|listen 127.0.0.1:$plain; listen 127.0.0.1:$tls|; s|127.0.0.1:8440|127.0.0.1:$port1|
		s|127.0.0.1:8441|127.0.0.1:$port2|; s|fleet.example.org|localhost|; s|rate=5r/s|rate=${1:-5}r/s|" configs/nginx/hone-fleet.conf >"$dir/fleet.conf"
	user=
	[ "$(id -u)" != 0 ] || user='user root;'
	cat >"$dir/nginx.conf" <<END
$user
worker_processes ${WORKERS:-2};
worker_rlimit_nofile 16384;
error_log $dir/nginx.log warn;
pid $dir/nginx.pid;
events { worker_connections 4096; }
http {
	client_body_temp_path $dir/body;
	proxy_temp_path $dir/proxy;
	fastcgi_temp_path $dir/fastcgi;
	uwsgi_temp_path $dir/uwsgi;
	scgi_temp_path $dir/scgi;
	include $dir/fleet.conf;
}
END
	"${NGINX:-nginx}" -c "$dir/nginx.conf" -p "$dir" -g 'daemon off;' 2>>"$dir/nginx.log" &
	nginx=$!
	within 10 eval '[ -s "$dir/nginx.pid" ]' || { cat "$dir/nginx.log"; return 1; }
}
url() { echo "postgresql:///postgres?host=$dir/pg&user=hone"; }
start_one() { serve one --listen "127.0.0.1:${port1:-0}" --db "$(url)"; one=$server; within 20 listens "$dir/one.log" && port1=$port; }
start_two() { serve two --listen "127.0.0.1:${port2:-0}" --db "$(url)"; two=$server; within 20 listens "$dir/two.log" && port2=$port; }
killed() {
	kill -KILL "$1"
	wait "$1" 2>/dev/null
	return 0
}
# The children of the old PostgreSQL end by themselves; until then no new one starts.
kill_postgres() {
	killed $postgres
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		start_postgres && return
		killed $postgres
	done
	return 1
}
have_postgres() { [ -n "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] && command -v setpriv >/dev/null; }
behind_nginx() {
	rm -rf "$dir/publish"
	start_postgres && start_one && start_two && start_nginx "$1" && token=$(token "$(url)") && server_url=https://localhost:$tls/v1
}
load() { "$b/tools/bench_load" --server "$server_url" --ca "$dir/keys/ca.pem" --token "$token" --names "$dir/names" "$@"; }
without_certificate() { ! load --bare --boards 1 --time 1s && grep -q 'no batch was acknowledged' "$dir/said"; }
status_of() { curl -s -o /dev/null -w '%{http_code}' --cacert "$dir/keys/ca.pem" "https://localhost:$tls$1"; }
denied() { # what operators see, also to this machine; what boards and monitors need is there
	for path in / /page/boards /page/sign-in /v1/api/boards /v1/admin/stop /openapi.json; do
		[ "$(status_of $path)" = 403 ] || { echo "$path: $(status_of $path)"; return 1; }
	done
	[ "$(status_of /v1/health)" = 200 ] && [ "$(status_of /v1/root/1)" = 200 ]
}
acknowledged() { # all that was is there
	psql 'SELECT name FROM batches' | sort >"$dir/there"
	sort "$dir/names" >"$dir/acknowledged"
	lost=$(comm -23 "$dir/acknowledged" "$dir/there" | wc -l)
	echo "fleet: $(wc -l <"$dir/acknowledged") batches acknowledged, $(wc -l <"$dir/there") in the database, $lost lost"
	[ -s "$dir/acknowledged" ] && [ "$lost" = 0 ]
}
under_load() {
	load --boards 6 --time 12s >"$dir/load.log" 2>&1 &
	load=$!
	sleep 2
	killed $one && sleep 1 && start_one || return
	sleep 1
	killed $two && sleep 1 && start_two || return
	sleep 1
	kill_postgres || return
	wait $load
	rc=$? load=
	cat "$dir/load.log"
	return $rc
}
on_postgres() {
	check "two instances on PostgreSQL behind nginx" behind_nginx
	[ -n "$server_url" ] || return
	board third "$server_url" "$token"
	board fourth "$server_url" "$token"
	board fifth "$server_url" "$token"
	mv "$dir/first/cache" "$dir/third/cache"
	check "a board pushes by mutual TLS" pushes third
	check "another one pulls" within 20 pulls fourth
	check "and one more" within 20 pulls fifth
	check "nothing without a certificate" without_certificate
	if command -v curl >/dev/null; then
		check "nginx shows operators' pages to nobody" denied
	else
		skip "no curl: apt-get install curl"
	fi
	check "one of the two leads" eval '[ "$(psql "SELECT count(*) FROM pg_locks WHERE locktype = '\''advisory'\'' AND granted")" = 1 ]'
	check "instances and PostgreSQL are killed under load and come back" under_load
	check "no acknowledged batch is lost" acknowledged
	acknowledged
	check "what came is taken in" within 30 eval '[ "$(psql "SELECT count(*) FROM batches WHERE taken = 0")" = 0 ]'
	check "instances end well" ends_well $one $two
	one='' two=''
}

# Figures.
pull() {
	"$b/hone" zoo "${MODEL:-mobilenet_v2}" -o "$dir/net.onnx" >/dev/null 2>&1 && keys || return
	db=$dir/fleet.db
	serve alone --listen 127.0.0.1:0 --db "$db" --cert "$dir/keys/server.pem" --key "$dir/keys/server.key"
	alone=$server
	within 20 listens "$dir/alone.log" && token=$(token "$db") || return
	board first "https://localhost:$port/v1" "$token"
	board second "https://localhost:$port/v1" "$token"
	mkdir -p "$dir/control"
	tune first "${BOX:-60s}" && pushes first 2>/dev/null && within 20 pulls second && tune second 2s && tune control 2s || return
	echo "${MODEL:-mobilenet_v2}: ${BOX:-60s} on the first board: $(number before_ms <"$dir/first.json") to $(after first) ms; 2 s on another" \
		"that pulled: $(after second) ms; 2 s without: $(after control) ms; $(kept first second) of $(wc -l <"$dir/first.best") kernels are the first's"
	"$b/hone" bench "$dir/net.onnx" --cache "$dir/first/cache" --cache "$dir/second/cache" --cache "$dir/control/cache" --json 2>/dev/null | tr '{' '\n' |
		sed -n 's/^"time_ratio":\([0-9.]*\),"time_low":\([0-9.]*\),"time_high":\([0-9.]*\)}.*/\1 (\2 to \3)/p' | {
		read -r pulled && read -r without && echo "run in turn, of the first's time: that pulled $pulled, without $without"
	}
}
ticks() { # of nginx's workers, in 1/100 s
	for p in $(cat "/proc/$nginx/task/$nginx/children"); do sed 's/.*) //' "/proc/$p/stat"; done | awk '{ t += $12 + $13 } END { print t + 0 }'
}
polls() {
	keys && port1=1 port2=1 && mkdir -p "$dir/publish/$class/canary" && head -c 6000 /dev/urandom >"$dir/publish/$class/canary/snapshot" &&
		start_nginx || return
	for connections in 64 1000; do
		t=$(ticks)
		"$b/tools/bench_polls" --port "$plain" --path "/v1/$class/canary/snapshot" --connections $connections --threads 1 --time 10s || return
		echo "nginx used $((($(ticks) - t) / 10)) % of a processor, ${WORKERS:-2} workers"
	done
	t=$(ticks)
	"$b/tools/bench_polls" --port "$plain" --tls "$tls" --ca "$dir/keys/ca.pem" --path "/v1/$class/canary/snapshot" --threads 16 --time 10s || return
	echo "by TLS; nginx used $((($(ticks) - t) / 10)) % of a processor"
}
class=0123456789abcdef0123456789abcdef

case $mode in
--pull | --polls) "${mode#--}" ;;
--load)
	keys && mkdir -p "$dir/first/cache" && behind_nginx 100000 && load --boards "${BOARDS:-16}" --time 10s && acknowledged
	;;
'')
	! nm "$b/hone-fleet" 2>/dev/null | grep -qE '__[at]san_init' || { echo "skip: a sanitizer's build"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
	"$b/hone" zoo steering -o "$dir/net.onnx" >/dev/null 2>&1 && keys || exit 1
	on_sqlite 10s
	if ! have_postgres; then
		skip "no PostgreSQL: apt-get install postgresql-15"
	elif ! command -v nginx >/dev/null; then
		skip "no nginx: apt-get install nginx-light"
	else
		on_postgres
	fi
	echo "$good passed, $bad failed, $skipped skipped"
	[ $bad = 0 ]
	;;
esac
