#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the units under a real systemd as PID 1, in a container whose root is an overlay in memory over this machine's: the boot box
# before a stand-in application, honed after it, kills, hangs, reloads, a second boot. Usage: nspawn.sh BUILD.
# Needs root, systemd-nspawn and the right to mount; says so if one is missing.
b=$1 good=0 bad=0 skipped=0

skip() {
	echo "skip: systemd as PID 1: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

if [ "$2" != inside ]; then
	for need in systemd-nspawn unshare nsenter setpriv /lib/systemd/systemd; do
		command -v $need >/dev/null || skip "no $need"
	done
	[ "$(id -u)" = 0 ] || skip "need root"
	[ -e "$b/honed" ] && ! nm "$b/honed" 2>/dev/null | grep -qE '__[at]san_init' || skip "a sanitizer's build"
	unshare -m true 2>/dev/null || skip "no mount namespace"
	exec unshare -m sh "$0" "$b" inside
fi

mount --make-rprivate /
top=$(mktemp -d) root=$top/root pid='' nspawn=''
end() {
	[ -n "$nspawn" ] && kill -TERM "$nspawn" 2>/dev/null && kill -TERM "$nspawn" 2>/dev/null
	[ -n "$nspawn" ] && wait "$nspawn"
	umount "$root" "$top/mem" 2>/dev/null
	rm -rf --one-file-system "$top"
} 2>/dev/null
trap end EXIT
trap 'exit 1' INT TERM HUP
mkdir "$top/mem" "$root"
mount -t tmpfs -o mode=755 tmpfs "$top/mem" 2>/dev/null && mkdir "$top/mem/upper" "$top/mem/work" &&
	mount -t overlay overlay -o "lowerdir=/,upperdir=$top/mem/upper,workdir=$top/mem/work" "$root" 2>/dev/null || skip "no overlay over /"
mount -t tmpfs tmpfs /run || skip "no tmpfs"

# The board has none of this machine's identity, units and users.
etc=$root/etc/systemd/system
prepare() {
	rm -rf "$root/etc/machine-id" "$root/etc/systemd/system" "$root/etc/fstab" "$root/etc/tmpfiles.d" "$root/var/log/journal" "$root/etc/hone" \
		"$root/var/lib/hone"
	echo 00000000000000000000000000000001 >"$root/etc/machine-id"
	mkdir -p "$etc/board.target.wants" "$root/opt/robot" "$root/etc/hone/honed.conf.d"
	for u in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket timers.target \
		systemd-networkd.service systemd-resolved.service systemd-timesyncd.service systemd-logind.service dbus.service dbus.socket; do
		ln -sf /dev/null "$etc/$u"
	done
	install -D -m 755 -t "$root/usr/local/bin" "$b/hone" "$b/honed" "$b/hone-worker"
	sh tools/build/units.sh --install "$root" /usr/local || return
	cat >"$etc/board.target" <<END
[Unit]
Requires=basic.target
After=basic.target
END
	cat >"$etc/robot.service" <<END
[Service]
ExecStart=/bin/sleep infinity
END
	install -D -m 644 configs/examples/app.conf "$etc/robot.service.d/hone.conf"
	for u in robot.service /usr/local/lib/systemd/system/honed.service /usr/local/lib/systemd/system/honed.socket; do
		ln -s "$u" "$etc/board.target.wants/$(basename "$u")"
	done
	[ ! -e "$root/usr/local/lib/systemd/system/hone-worker.socket" ] ||
		ln -s /usr/local/lib/systemd/system/hone-worker.socket "$etc/board.target.wants"
}

in_board() { nsenter -t "$pid" -m -u -i -n -p -C -- "$@"; }
sc() { in_board systemctl --no-pager "$@"; }
show() { sc show -P "$2" "$1"; } # UNIT PROPERTY
journal() { in_board journalctl --no-pager -q -o cat -u "$1"; }

# Repeats a command until it succeeds, for $1 seconds at most.
within() {
	left=$(($1 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		left=$((left - 1))
		[ $left -gt 0 ] || return 1
		sleep 0.1
	done
}

child_of() { grep -o '[0-9]*' "/proc/$1/task/$1/children" 2>/dev/null | head -n 1; }
has_init() { pid=$(child_of "$nspawn") && [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm")" = systemd ]; }

boot() { # the board is up when its target is
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn -q -D "$root" --boot --register=no --keep-unit --console=pipe \
		systemd.unit=board.target </dev/null >"$top/mem/console" 2>&1 &
	nspawn=$!
	within 10 has_init || return
	within 10 sc show -P Version
}

halt() {
	sc poweroff --no-block >/dev/null 2>&1
	within 20 eval '! kill -0 $nspawn 2>/dev/null' || kill -KILL "$pid"
	wait "$nspawn" 2>/dev/null
	nspawn='' pid=''
}

check() { # what, command...
	what=$1 start=$(date +%s)
	shift
	if "$@" >"$top/mem/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "nspawn: not so: $what"
		tail -n 20 "$top/mem/said" | sed 's/^/	/'
	fi
	[ -z "$TEST_TIMES" ] || echo "$(($(date +%s) - start)) s  $what"
}

us() { show "$1" "$2TimestampMonotonic"; }
is() { # UNIT PROPERTY VALUE
	[ "$(show "$1" "$2")" = "$3" ] || { show "$1" "$2"; journal "$1" | tail; return 1; }
}
conf() { cat >"$root/etc/hone/honed.conf.d/10-board.conf"; }
# Counts kernels that a reader of the cache finds, which the daemon's user wrote.
kernels() { in_board setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/ /usr/local/bin/hone show --json --cache /var/lib/hone/cache | grep -o '"task_key"' | wc -l; }
has_kernels() { [ "$(kernels)" -ge "$1" ] || { kernels; sc status --no-pager hone-boot.service; return 1; }; }
status() { in_board /usr/local/bin/hone status --json; }
status_says() { status | grep -q "$1" || { status; return 1; }; }
# Prints the first process of this name below honed.
under_honed() { in_board cat /sys/fs/cgroup/system.slice/honed.service/cgroup.procs | while read -r p; do
	[ "$(in_board cat "/proc/$p/comm")" = "$1" ] && echo "$p" && break
done; }
another() { # NAME OLD: another process of that name than the old one
	now=$(under_honed "$1") && [ -n "$now" ] && [ "$now" != "$2" ]
}

box_before_robot() {
	is hone-boot.service Result success && is hone-boot.service ActiveState active && is robot.service ActiveState active || return
	echo "box: $(us hone-boot.service ExecMainStart) to $(us hone-boot.service ExecMainExit); robot: $(us robot.service ExecMainStart)"
	[ "$(us hone-boot.service ExecMainExit)" -gt 0 ] && [ "$(us robot.service ExecMainStart)" -ge "$(us hone-boot.service ExecMainExit)" ]
}
box_ms() { echo $((($(us hone-boot.service ExecMainExit) - $(us hone-boot.service ExecMainStart)) / 1000)); }

made_again() { # as a package's upgrade does
	in_board systemd-sysusers /usr/local/lib/sysusers.d/hone.conf 2>&1 && in_board systemd-tmpfiles --create /usr/local/lib/tmpfiles.d/hone.conf 2>&1
}

first_boot() {
	boot || skip "it does not boot here: $(tail -n 1 "$top/mem/console")"
	check "STATUS= tells of the time left" within 10 eval 'show hone-boot.service StatusText | grep -E " s left|left"'
	check "the socket answers during the box" status_says '"mode": *"box"'
	check "the box comes before the robot's application" within 40 box_before_robot
	check "it ends within its time" [ "$(box_ms)" -lt 15000 ]
	check "it leaves kernels that applications can read" has_kernels 1
	check "users and folders can be made again, in silence" eval '[ -z "$(made_again | tee /dev/stderr)" ]'
	check "honed is up" within 20 is honed.service SubState running
	check "honed answers" within 10 status_says '"mode": *"resident"'
}

# A model whose file changed is tuned again.
busy() { in_board touch /opt/robot/net.onnx && within 30 eval '[ -n "$(worker_pid)" ] && [ -n "$(under_honed hone)" ]'; }
worker_pid() { in_board pidof -s hone-worker; }
another_worker() { # OLD...: one that is none of them
	for p in $(in_board pidof hone-worker); do
		case " $* " in *" $p "*) ;; *) return 0 ;; esac
	done
	return 1
}
kill_job() {
	busy || return
	job=$(under_honed hone)
	in_board kill -KILL "$job" && within 60 another hone "$job"
}
confined_workers() { # each with a user, a unit and a filter of its own
	busy || return
	id=$(in_board id -u hone-worker) seen=0
	for w in $(in_board pidof hone-worker); do
		said=$(in_board grep -hE '^(Uid|Seccomp|NoNewPrivs|CapEff):|/hone-worker@' "/proc/$w/status" "/proc/$w/cgroup" | tr -d '\n')
		in_board test -d "/proc/$w" || continue # they come and go
		seen=$((seen + 1))
		echo "$said" | grep -q "Uid:.$id.*CapEff:.0*NoNewPrivs:.1Seccomp:.2.*/hone-worker@" || { echo "$said"; return 1; }
	done
	[ $seen -gt 0 ]
}
kill_workers() { # SIGNAL: KILL them, or STOP them and see that others serve
	busy || return
	workers=$(in_board pidof hone-worker)
	in_board kill "-$1" $workers # one may have gone already
	within 60 another_worker $workers
}
restarted() { [ "$(show honed.service NRestarts)" -gt "$1" ] && is honed.service SubState running; }
killed_honed() {
	n=$(show honed.service NRestarts) had=$(kernels)
	sc kill -s KILL --kill-who=main honed.service
	within 20 restarted "$n" && within 10 status_says resident && has_kernels "$had"
}
hung_honed() {
	n=$(show honed.service NRestarts) had=$(kernels)
	sc kill -s STOP --kill-who=main honed.service
	within 20 restarted "$n" && within 10 status_says resident && has_kernels "$had" && journal honed.service | grep -q 'Watchdog timeout'
}
reloads() {
	echo '[boot]' >"$root/etc/hone/honed.conf.d/20-more.conf"
	printf '[model more]\npath = /opt/robot/more.onnx\n' >>"$root/etc/hone/honed.conf.d/20-more.conf"
	sc reload honed.service && within 10 status_says '"more"'
}
refuses_a_bad_file() {
	printf '[boot]\nbudget = soon\n' >"$root/etc/hone/honed.conf.d/30-bad.conf"
	sc reload honed.service && within 10 eval 'journal honed.service | grep -q "30-bad.conf:2: .*budget = soon"' &&
		status_says '"more"' && is honed.service SubState running
	rc=$?
	rm -f "$root"/etc/hone/honed.conf.d/30-bad.conf "$root"/etc/hone/honed.conf.d/20-more.conf
	sc reload honed.service
	return $rc
}

inhibited() {
	in_board touch /run/hone/inhibit.d/moving && within 20 status_says '"why": *"inhibited"' && in_board rm /run/hone/inhibit.d/moving &&
		within 20 status_says '"open": *true'
}

resident() {
	check "a killed job is started again" kill_job
	check "killed workers are replaced" kill_workers KILL
	check "hung workers are replaced" kill_workers STOP
	check "workers are confined" confined_workers
	check "a killed honed comes back, and nothing is lost" killed_honed
	check "a hung honed is ended by the watchdog and comes back" hung_honed
	check "a reload takes a new model up" reloads
	check "a bad file is refused with its line, and the old one stays" refuses_a_bad_file
	check "an inhibit file stops tuning" inhibited
}

# On a busy machine the boxes so far may have left candidates: a later boot then has nothing to do.
boots_with_nothing_to_do() {
	for _ in 1 2 3 4; do
		is hone-boot.service StatusText "every model has its kernels" && return
		halt
		boot && within 30 box_before_robot || return
	done
	is hone-boot.service StatusText "every model has its kernels"
}
second_boot() {
	halt
	check "the board boots again" boot
	[ -n "$pid" ] || return
	check "the box comes first again" within 30 box_before_robot
	check "a boot has nothing to do" boots_with_nothing_to_do
	echo "nspawn: nothing to do: hone-boot took $(box_ms) ms"
}

# Three boxes are cut off, as by a loss of power; the next one is not started.
cut_box() {
	sc stop hone-boot.service
	sc start --no-block hone-boot.service
	within 10 under_boot || return
	sc kill -s KILL hone-boot.service
	within 10 is hone-boot.service Result signal
}
under_boot() { [ "$(show hone-boot.service ActiveState)" = activating ] && [ "$(show hone-boot.service MainPID)" != 0 ] && [ -n "$(in_board pidof hone)" ]; }
skips_after_three() {
	sc stop honed.service honed.socket
	in_board touch /opt/robot/net.onnx
	cut_box && cut_box && cut_box || return
	sc stop hone-boot.service
	sc start hone-boot.service && is hone-boot.service Result success && journal hone-boot.service | tail -n 3 | grep -q 'boot boxes were interrupted'
}

prepare || skip "cannot prepare a root"
HOME=$top/mem "$b/hone" zoo steering -o "$root/opt/robot/net.onnx" >/dev/null 2>&1 || exit 1
cp "$root/opt/robot/net.onnx" "$root/opt/robot/more.onnx"
conf <<END
[boot]
budget = 6s
[idle]
settle = 1s
load = 100%
pressure = 100%
[inhibit]
file = /run/hone/inhibit.d/moving
[model net]
path = /opt/robot/net.onnx
END
mkdir -p "$etc/honed.service.d" "$etc/hone-boot.service.d"
printf '[Service]\nTimeoutStartSec=2s\n' >"$etc/hone-boot.service.d/test.conf" # a box that is longer asks for more
printf '[Service]\nWatchdogSec=2s\nRestartSec=100ms\n' >"$etc/honed.service.d/test.conf"

first_boot
[ -z "$pid" ] || resident
[ -z "$pid" ] || second_boot
[ -z "$pid" ] || check "three boxes that were cut off: the fourth is skipped, and it is said" skips_after_three
[ -z "$pid" ] || halt
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
