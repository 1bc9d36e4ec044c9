#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The systemd units. `units.sh BUILD` checks them: `systemd-analyze verify` says nothing, and each service's exposure is within
# its limit. `units.sh --install DESTDIR PREFIX` puts them where they belong, with honed.conf where there is none, and
# `units.sh --private DESTDIR PREFIX` succeeds if that is a folder of the user's own.
units=configs/systemd

# A folder of the user's own: an installation there leaves /etc and the system's list of libraries alone.
is_private() { # DESTDIR PREFIX
	[ -z "$1" ] || return 1
	case $2 in /usr | /usr/local | /opt | /opt/*) return 1 ;; esac
}

install_units() { # DESTDIR PREFIX
	root=$1$2
	install -d "$root/lib/systemd/system" "$root/lib/sysusers.d" "$root/lib/tmpfiles.d" "$root/share/doc/hone/examples" || return
	for u in $units/*.service $units/*.socket $units/*.timer $units/*.path; do
		sed "s|/usr/local/|$(printf %s "$2" | sed 's/ /\\\\x20/g')/|" "$u" >"$root/lib/systemd/system/$(basename "$u")" || return
		chmod 644 "$root/lib/systemd/system/$(basename "$u")"
	done
	install -m 644 $units/sysusers.conf "$root/lib/sysusers.d/hone.conf"
	install -m 644 $units/tmpfiles.conf "$root/lib/tmpfiles.d/hone.conf"
	install -m 644 $units/hone-worker-gpu.conf "$root/share/doc/hone/examples"
	install -m 644 configs/honed.conf "$root/share/doc/hone/examples" || return
	if is_private "$1" "$2"; then
		echo "nothing outside of $2 was written: its honed takes --config FILE (an example is in $root/share/doc/hone/examples)"
	elif [ ! -e "$1/etc/hone/honed.conf" ]; then
		install -D -m 644 configs/honed.conf "$1/etc/hone/honed.conf" 2>/dev/null ||
			echo "no $1/etc/hone/honed.conf (not permitted): an example is in $root/share/doc/hone/examples"
	fi
}

good=0 bad=0 skipped=0
check() { # what, what was said that should not have been
	if [ -z "$2" ]; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		printf 'units: %s:\n%s\n' "$1" "$2" | sed '2,$s/^/	/'
	fi
}

exposure() { # unit, limit in tenths
	check "$1 is more exposed than $2 tenths" "$(systemd-analyze security --offline=true --threshold="$2" --no-pager "$1" 2>&1 >"$d/said" ||
		grep -v '✓' "$d/said")"
}

check_install() {
	install_units "$d/root" /opt/x >/dev/null
	echo '#mine' >"$d/root/etc/hone/honed.conf"
	install_units "$d/root" /opt/x >/dev/null
	check "install overwrites honed.conf" "$(grep -vx '#mine' "$d/root/etc/hone/honed.conf")"
	install_units "$d/blank" "/opt/x y" >/dev/null
	check "units with a blank in PREFIX" "$(grep -q '^ExecStart=/opt/x\\x20y/bin/honed' "$d/blank/opt/x y/lib/systemd/system/honed.service" ||
		grep ExecStart "$d/blank/opt/x y/lib/systemd/system/honed.service")"
	check "an installation below a user's folder writes into /etc" "$(install_units "" "$d/home" | grep -v '^nothing outside of')"
	check "installed files do not follow PREFIX" "$(grep -rn /usr/local "$d/root/opt/x"; grep -q '^ExecStart=/opt/x/bin/honed' \
		"$d/root/opt/x/lib/systemd/system/honed.service" || echo "ExecStart of honed.service")"
}

check_units() { # BUILD
	d=$(mktemp -d)
	trap 'rm -rf "$d"' EXIT
	check_install
	if ! command -v systemd-analyze >/dev/null; then
		echo "skip: units: no systemd-analyze"
		skipped=2
		return
	fi
	mkdir "$d/units"
	for u in $units/*.service $units/*.socket $units/*.timer $units/*.path; do
		sed "s|/usr/local/bin/|$(realpath "$1")/|" "$u" >"$d/units/$(basename "$u")"
	done
	export SYSTEMD_UNIT_PATH="$d/units:"
	check "systemd-analyze verify" "$(systemd-analyze verify --man=no "$d"/units/*.service "$d"/units/*.socket "$d"/units/*.timer "$d"/units/*.path 2>&1)"
	exposure "$d/units/honed.service" 15
	exposure "$d/units/hone-boot.service" 15
	exposure "$d/units/hone-worker@.service" 5
	exposure "$d/units/hone-sync.service" 15
	exposure "$d/units/hone-fleet.service" 15
	# With the drop-in for a GPU.
	mkdir -p "$d/units/hone-worker@.service.d"
	cp $units/hone-worker-gpu.conf "$d/units/hone-worker@.service.d/gpu.conf"
	check "systemd-analyze verify of the GPU's drop-in" "$(systemd-analyze verify --man=no "$d/units/hone-worker@.service" 2>&1)"
	check "the GPU's drop-in is not read" "$(systemd-analyze security --offline=true --no-pager "$d/units/hone-worker@.service" |
		grep 'PrivateDevices=' | grep '✓')"
	exposure "$d/units/hone-worker@.service" 17
}

case $1 in
--install)
	install_units "$2" "$3"
	exit ;;
--private)
	is_private "$2" "$3"
	exit ;;
esac
check_units "$1"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
