#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs, upgrades, removes and purges the Debian packages in fresh roots: deb.sh BUILD FOLDER [--short]. FOLDER has what `make deb` made
# for this machine, arm64 or armhf (BUILD/deb has python3-hone for all); BUILD keeps a root for each architecture in deb-roots, with the
# packages that hone's need, so that they are fetched once: delete that folder if the mirror has newer ones. Each scenario gets an overlay in memory
# over the root. Programs of another architecture are emulated, in a user namespace whose rules for binfmt are its own. --short: what takes some seconds.
build=$1 folder=$2 short=$3 good=0 bad=0 skipped=0
end() {
	echo "$good passed, $bad failed, $skipped skipped"
	[ $bad = 0 ]
	exit
}
skip() {
	echo "skip: Debian packages: $1"
	skipped=$((skipped + 1))
	end
}
worker=$(ls "$folder"/hone-worker_*.deb 2>/dev/null | head -1)
[ -n "$worker" ] || skip "none in $folder (make deb, or for another architecture make deb BOARD=generic-arm64)"
arch=$(dpkg-deb -f "$worker" Architecture) version=$(dpkg-deb -f "$worker" Version)
here=$(dpkg --print-architecture)
ours="hone hone-worker honed libhone1 libhone-dev python3-hone"
[ "$arch" != "$here" ] || ours="$ours hone-fleet"
case $arch in
arm64) emulator=qemu-aarch64 emulated=cortex-a76 ;;
armhf) emulator=qemu-arm emulated=cortex-a7 ;;
*) emulator='' emulated='' ;;
esac
[ "$arch" != "$here" ] || emulator=''

# ---- namespaces ----
if [ "$4" != inside ]; then
	for need in mmdebstrap dpkg-scanpackages unshare; do
		command -v $need >/dev/null || skip "no $need on PATH (apt-get install mmdebstrap dpkg-dev)"
	done
	[ "$(id -u)" = 0 ] || skip "need root, because packages install files of root"
	unshare -m mount -t tmpfs tmpfs /mnt 2>/dev/null || skip "no right to mount"
	[ -z "$emulator" ] || command -v $emulator-static >/dev/null || skip "no $emulator-static on PATH (apt-get install qemu-user-static)"
	mkdir -p "$build/deb-roots"
	[ -n "$emulator" ] || exec unshare --mount --pid --fork sh "$0" "$build" "$folder" "$short" inside
	# All users of this machine are those of the namespace, which only root can arrange from outside.
	go=$(mktemp -u) && mkfifo "$go" || exit 1
	trap 'rm -f "$go"' EXIT
	unshare --user --mount --pid --fork sh -c 'read -r _ <"$1" && exec sh "$2" "$3" "$4" "$5" inside' sh "$go" "$0" "$build" "$folder" "$short" &
	sleep 0.5
	echo "0 0 4294967295" | tee /proc/$!/uid_map >/proc/$!/gid_map
	echo >"$go"
	wait $!
	exit
fi
mount --make-rprivate / && mount -t proc proc /proc
if [ -n "$emulator" ]; then
	rule=$(ls /usr/lib/binfmt.d/$emulator.conf /usr/share/qemu/binfmt.d/$emulator.conf 2>/dev/null | head -1)
	mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null && cat "$rule" >/proc/sys/fs/binfmt_misc/register ||
		skip "the kernel runs no emulator in a user namespace (it is older than 6.7)"
	export QEMU_CPU=$emulated
fi
top=$(mktemp -d) && mount -t tmpfs -o mode=755 tmpfs "$top" || skip "no tmpfs"
root=$top/root
trap 'umount -l "$root" "$top" 2>/dev/null; rmdir "$top"' EXIT
mkdir "$root"

# ---- roots ----
within() { # command in the root
	chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive \
		${emulated:+QEMU_CPU=$emulated} "$@" </dev/null
}
apt() { within apt-get -qq -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=no "$@"; }
mounts() {
	mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/tmp"
}
# A user namespace may not unmount what lies below /sys and /dev one by one, so the whole is detached.
unmount() { # folder
	umount -R "$1" 2>/dev/null || umount -l "$1" 2>/dev/null
}
close() {
	unmount "$root"
	unmount "$top/mem"
	rm -rf "$top/mem"
}
# An empty board: Debian without hone; the repositories are in /hone. In a user namespace the overlay may write no other attributes
# of files than user.*, and without attributes it renames no folder.
fresh() {
	close
	mkdir "$top/mem" && mount -t tmpfs -o mode=755 tmpfs "$top/mem" && mkdir "$top/mem/upper" "$top/mem/work" "$top/mem/upper/hone" &&
		mount -t overlay overlay -o "lowerdir=$kept,upperdir=$top/mem/upper,workdir=$top/mem/work${emulator:+,userxattr}" "$root" && mounts &&
		mount --bind "$top/packages" "$root/hone" && release 1
}
release() { # which repository the root knows
	echo "deb [trusted=yes] file:/hone/$1 ./" >"$root/etc/apt/sources.list.d/hone.list"
	apt update -o Dir::Etc::sourcelist=sources.list.d/hone.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
}
repository() { (cd "$top/packages/$1" && dpkg-scanpackages -m . >Packages 2>/dev/null); }
# The same packages by a higher version. COMMAND changes the files.
later() { # number, command
	mkdir "$top/packages/$1"
	for p in "$top"/packages/1/*.deb; do
		dpkg-deb -R "$p" "$top/unpacked"
		sed -i "s/^Version: .*/Version: $version.later$1/; s/(= $version)/(= $version.later$1)/g" "$top/unpacked/DEBIAN/control"
		(cd "$top/unpacked" && eval "$2")
		dpkg-deb -Znone --root-owner-group -b "$top/unpacked" "$top/packages/$1/$(basename "$p")" >/dev/null
		rm -rf "$top/unpacked"
	done
	repository "$1"
}
tools="gcc libc6-dev pkg-config"
base() {
	kept=$(realpath "$build/deb-roots")/$arch
	[ ! -e "$kept.complete" ] || return 0
	mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
	if [ ! -e "$kept.unpacked" ]; then
		rm -rf "$kept"
		mmdebstrap --quiet --mode=root --skip=check/qemu --variant=minbase --architectures="$arch" --include=systemd \
			bookworm "$kept" "${mirror:-http://deb.debian.org/debian}" >"$top/said" 2>&1 || return
		touch "$kept.unpacked"
	fi
	# What hone's packages and the examples need lies in apt's folder, not installed.
	mount --bind "$kept" "$root" && mounts && mkdir -p "$root/hone" && mount --bind "$top/packages" "$root/hone" && cp /etc/resolv.conf "$root/etc" &&
		apt update >"$top/said" 2>&1 && release 1 >>"$top/said" 2>&1 &&
		apt install --download-only $ours $tools python3-numpy >>"$top/said" 2>&1
	rc=$?
	rm -f "$root/etc/apt/sources.list.d/hone.list"
	unmount "$root"
	[ $rc = 0 ] && touch "$kept.complete"
}

# ---- checks ----
check() { # what, command...
	what=$1 start=$(date +%s)
	shift
	if "$@" >"$top/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "deb: $arch: not so: $what"
		tail -n 15 "$top/said" | sed 's/^/	/'
	fi
	[ -z "$TEST_TIMES" ] || echo "$(($(date +%s) - start)) s  $what"
}
fails() { # words that it says, command...
	words=$1
	shift
	! "$@" >"$top/failed" 2>&1 && cat "$top/failed" && grep -qE "$words" "$top/failed"
}
silent() { ! "$@" 2>&1 | grep .; }
# Everything in the root but what dpkg, apt and their helpers keep, and users.
# /run/systemd is in memory: systemctl notes there when it read the units.
files() {
	(cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o -path ./tmp -o -path ./hone -o -path ./run/systemd \) -prune -o \
		-printf '%y %m %U %G %p %l\n' | grep -vE '\./etc/((passwd|group|shadow|gshadow)-?|\.pwd\.lock|ld\.so\.cache|apt/.*) $' | sort
	find etc -xdev -type f ! -path 'etc/apt/*' ! -name '*passwd*' ! -name '*group*' ! -name '*shadow*' ! -name '*.cache' -exec md5sum {} + | sort)
}
state() { # package: what dpkg says
	within dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | tr -d ' '
}
all_are() { # state
	for p in $ours; do
		[ "$(state "$p")" = "$1" ] || { echo "$p: $(state "$p"), not $1"; return 1; }
	done
}
# ELF files of hone's packages, each with all its libraries.
linked() {
	within sh -c 'for p in "$@"; do dpkg -L "$p"; done | while read -r f; do
		[ -f "$f" ] && [ ! -L "$f" ] && [ "$(head -c 4 "$f" | tail -c 3)" = ELF ] && ldd "$f" 2>&1 | grep -E "not found|not a dynamic" | sed "s,^,$f: ,"; done' sh "$@"
}
alone() { # package, command
	fresh && apt install "$1" && silent linked "$1" && within sh -c "$2"
}
users() {
	for u in hone hone-worker hone-sync; do grep -q "^$u:.*:/usr/sbin/nologin$" "$root/etc/passwd" || { grep "^$u:" "$root/etc/passwd"; echo "no user $u"; return 1; }; done
	[ "$(stat -c %a:%u:%g "$root/run/hone" "$root/run/hone/inhibit.d" | tr '\n' ' ')" = "755:$(within id -u hone):$(within id -g hone) 1777:$(within id -u hone):$(within id -g hone) " ]
}
units() { within sh -c 'cd /lib/systemd/system && systemd-analyze verify --man=no $(ls | grep "^hone" | grep -v @) hone-worker@1.service'; }
enabled() { # which units start by themselves
	within sh -c 'for u in $(cd /lib/systemd/system && ls | grep "^hone"); do systemctl is-enabled $u | sed "s/^/$u: /"; done' | grep ': enabled' | tr '\n' ' '
}
starts() { enabled | tee "$top/enabled" && [ "$(sed 's/: enabled//g' "$top/enabled")" = "hone-worker.socket honed.service honed.socket " ]; }
pages() { # those that units name, and a page for each program
	for p in $(sed -n 's/^Documentation=//p' "$root"/lib/systemd/system/hone* | tr ' ' '\n' | sed -n 's/man:\(.*\)(\(.\))/man\2\/\1.\2.gz/p' | sort -u) \
		man1/hone.1.gz man1/hone-tune.1.gz man3/hone_open.3.gz man5/honed.conf.5.gz; do
		[ -s "$root/usr/share/man/$p" ] || [ "${ours%hone-fleet}/$p" = "$ours/man1/hone-fleet.1.gz" ] || { echo "no $p"; return 1; }
	done
}
paths() { # files that packages name in their texts are there, and nothing is of /usr/local
	within sh -c 'dpkg -L "$@" | grep -E "/(systemd|doc|man|etc|pkgconfig|bash-completion)/" | while read -r f; do [ -f "$f" ] && [ "${f##*/}" != README.Debian ] && zcat -f "$f" | grep -n /usr/local/ | sed "s,^,$f: ,"; done
		zcat -f $(dpkg -L "$@" | grep -E "/(systemd/system|man8)/.") | grep -o "/usr/share/doc/hone[a-z]*/[a-z]*" | sort -u | while read -r f; do [ -d "$f" ] || echo "no $f"; done' sh $ours
}
unbroken() { silent within dpkg --verify $ours; } # sums of files
example() { # flags of the compiler
	within sh -c "cc -Wall -Werror /usr/share/doc/libhone-dev/examples/classify.c $1 -o /tmp/classify && /tmp/classify /tmp/net.onnx 2>&1" >"$top/out"
	cat "$top/out"
	grep -qE '^[0-9]+ -?[0-9.e-]+$' "$top/out" && grep -qE "$2" "$top/out"
}
python() {
	cat >"$root/tmp/example.py" <<'END'
import hone, numpy
with hone.load("/tmp/net.onnx") as model:
    print(model, model.device)
    out = model(numpy.zeros(model.inputs[0].shape, "f4"))
    assert numpy.isfinite(out).all(), out
END
	within python3 /tmp/example.py
}
box=${DEB_BOX:-$([ -n "$emulator" ] && echo 20 || echo 3)} # seconds
all_tuned='kernels tuned, [0-9]+ default, 0 fallback, 0 portable'
# A busy machine may need a longer box for all kernels: runs the command, each time with a box twice as long, until the second command
# says that all are there, 5 times at most.
until_tuned() { # command that takes --budget, command that runs the model
	s=$box
	for try in 1 2 3 4 5; do
		within sh -c "$1 --budget ${s}s"
		within sh -c "$2 2>&1" >"$top/out"
		cat "$top/out"
		grep -qE "$all_tuned" "$top/out" && return
		s=$((s * 2))
	done
	return 1
}
tuned() {
	until_tuned "hone tune /tmp/net.onnx" "/tmp/classify /tmp/net.onnx" && within hone verify /tmp/net.onnx --kernels best && within test -d /root/.cache/hone
}
daemon() { # a boot box of honed's user, and then an application of another one
	mkdir -p "$root/etc/hone/honed.conf.d" && install -D -m 644 "$root/tmp/net.onnx" "$root/opt/net.onnx" && install -d -o "$(within id -u hone)" -g "$(within id -g hone)" "$root/var/lib/hone" &&
		printf '[model net]\npath = /opt/net.onnx\n' >"$root/etc/hone/honed.conf.d/net.conf" && within honed --check &&
		until_tuned "setpriv --reuid=hone --regid=hone --clear-groups env HOME=/ honed --boot" "setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/ /tmp/classify /opt/net.onnx"
}
kept_mine() { grep -qx '# mine' "$root/etc/hone/honed.conf" && [ -s "$root/etc/hone/honed.conf.d/net.conf" ] && [ -d "$root/var/lib/hone/cache" ] && [ -d "$root/root/.cache/hone" ]; }
versions() { # of all
	for p in $ours; do [ "$(within dpkg-query -W -f '${Version}' "$p")" = "$1" ] || { echo "$p is not $1"; return 1; }; done
}
gone() { # programs, units and libraries
	within sh -c '! ls -d /usr/bin/hone* /usr/lib/*/libhone* /usr/lib/*/hone /usr/lib/python3/dist-packages/hone /lib/systemd/system/hone* /usr/include/hone.h /usr/share/doc/hone* 2>/dev/null | grep .'
}
same_files() {
	files >"$top/after"
	diff "$1" "$top/after"
}
depends_first() {
	set -- $(apt -s install $ours | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -vxE "$(echo "$ours" | tr ' ' '|')")
	apt install "$@" $tools python3-numpy
}

# ---- scenarios ----
lifecycle() {
	fresh && depends_first >"$top/said" 2>&1 || { tail "$top/said"; bad=$((bad + 1)); return; }
	files >"$top/before"
	check "all packages install" apt install $ours
	check "all are configured" all_are ii
	check "users and folders are there" users
	check "the units are right" silent units
	check "what needs no operator is enabled, and nothing else" starts
	check "manual pages are there" pages
	check "nothing leads out of the packages" silent paths
	check "files are as packed" unbroken
	check "hone --version says the version" sh -c "chroot '$root' /usr/bin/hone --version | grep -qF '${version%-*}'"
	check "hone zoo writes a network" within hone zoo steering -o /tmp/net.onnx
	[ -z "$emulator" ] || "$build/tests/boots" net 0 "$root/tmp/net.onnx" "$top/net.npy" # for an emulator, one that is small
	check "the C example runs, without tuned kernels" example '$(pkg-config --cflags --libs hone)' '^0 kernels tuned'
	[ -n "$emulator" ] || check "the C example links statically" example '-static $(pkg-config --cflags --static --libs hone) 2>/dev/null' '^0 kernels tuned'
	check "hone tunes, and its kernels are right" tuned
	check "the C example runs, with tuned kernels" example '$(pkg-config --cflags --libs hone)' "$all_tuned"
	check "the Python example runs" python
	check "honed tunes in a boot box, and applications see it" daemon
	echo '# mine' >>"$root/etc/hone/honed.conf"
	check "there is a later version" release 2
	check "the upgrade asks nothing" apt upgrade
	check "all were upgraded" versions "$version.later2"
	check "a changed honed.conf and all state survive" kept_mine
	check "there is one with another honed.conf" release 3
	check "its upgrade keeps the changed one, too" apt -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold upgrade
	check "and lays the new one beside it" grep -qx '# news' "$root/etc/hone/honed.conf.dpkg-dist"
	check "after two upgrades state is there, users are" kept_mine
	check "units are enabled as before" starts
	check "hone runs" within hone verify /tmp/net.onnx --kernels best
	check "all are removed" apt remove $ours
	check "programs, units and libraries are gone" gone
	check "configuration and state stay" kept_mine
	check "they install again" apt install $ours
	check "with what they had" kept_mine
	check "units are enabled again" starts
	check "all are purged" apt purge $ours
	check "a user's cache stays" test -d "$root/root/.cache/hone"
	rm -rf "$root/root/.cache" "$root/opt/net.onnx" # the user's, and the test's
	check "nothing else stays" same_files "$top/before"
	check "users stay" within id hone
	check "they install after a purge" apt install $ours
	check "as new" sh -c "! grep -q '# mine' '$root/etc/hone/honed.conf' && [ ! -e '$root/var/lib/hone/cache' ]"
	check "hone runs after a purge" within hone verify /tmp/net.onnx
}
# honed.conf that nobody changed becomes the new one.
unchanged() {
	fresh && apt install honed >"$top/said" 2>&1
	release 3
	check "an unchanged honed.conf is replaced" apt upgrade
	check "by the new one" grep -qx '# news' "$root/etc/hone/honed.conf"
}
foreign() {
	fresh
	files >"$top/before"
	dpkg-deb -R "$top"/packages/1/hone-worker_*.deb "$top/unpacked"
	sed -i "s/^Architecture: .*/Architecture: riscv64/" "$top/unpacked/DEBIAN/control"
	dpkg-deb -Znone -b "$top/unpacked" "$top/packages/foreign.deb" >/dev/null
	rm -rf "$top/unpacked"
	check "dpkg refuses another architecture" fails "architecture \(riscv64\) does not match" within dpkg -i /hone/foreign.deb
	check "nothing was installed" same_files "$top/before"
}
missing() {
	fresh
	check "dpkg names what is missing" fails "depends on hone-worker" within sh -c 'dpkg -i /hone/1/honed_*.deb'
	check "nothing was configured" sh -c "! grep -q '^hone:' '$root/etc/passwd'"
	check "apt installs what is missing" apt -f install
	check "then all is configured" sh -c "[ '$(state honed)' = ii ] && [ '$(state hone)' = ii ] && grep -q '^hone:' '$root/etc/passwd'"
	check "apt removes no package that another one needs without it" sh -c "chroot '$root' dpkg --remove hone-worker 2>&1 | grep -q 'dependency problems'"
}
# An installation of `make install`, then packages over it.
local_first() {
	fresh && depends_first >"$top/said" 2>&1
	check "make install goes there" sh -c "PYTHON_SITE=/usr/local/lib/python3.11/dist-packages sh tools/build/install.sh '$build' '$root' /usr/local '${version%-*}' libhone.so.1 $(echo "$build"/gen/*.fallback.zst)"
	within ldconfig
	within sh -c 'cd /usr/local && find . -type f -exec md5sum {} + | sort' >"$top/local"
	mkdir -p "$root/var/lib/hone/cache"
	check "packages install over it and ask nothing" apt install $ours
	check "units of both are right" silent units
	check "the packages' programs run" sh -c "chroot '$root' /usr/bin/hone --version && chroot '$root' /usr/local/bin/hone --version"
	check "packages are purged" apt purge $ours
	check "the installation is as it was" sh -c "chroot '$root' sh -c 'cd /usr/local && find . -type f -exec md5sum {} + | sort' | diff '$top/local' -"
	check "and its state stays" test -d "$root/var/lib/hone/cache"
	check "and it runs" within /usr/local/bin/hone --version
}

mkdir -p "$top/packages/1"
for p in $ours; do
	f=$(ls "$folder/${p}"_*.deb "$build/deb/${p}"_*_all.deb 2>/dev/null | head -1)
	[ -n "$f" ] || { echo "deb: no package $p in $folder"; bad=$((bad + 1)); end; }
	cp "$f" "$top/packages/1"
done
repository 1
base || { tail -n 3 "$top/said"; skip "Debian's packages for $arch cannot be had (apt-get update shows whether the mirror answers)"; }
later 2 :
later 3 '[ ! -e etc/hone/honed.conf ] || { echo "# news" >>etc/hone/honed.conf; sum=$(md5sum <etc/hone/honed.conf | cut -c1-32); sed -i "s,^.*  etc/hone/honed.conf,$sum  etc/hone/honed.conf," DEBIAN/md5sums; }'
if [ -z "$short" ]; then
	if command -v lintian >/dev/null; then
		check "lintian finds no error and no warning" lintian --allow-root --fail-on error,warning "$top"/packages/1/*.deb
	else
		echo "skip: Debian packages: no lintian (apt-get install lintian)"
		skipped=$((skipped + 1))
	fi
	lifecycle
	[ -n "$emulator" ] || unchanged
	foreign
fi
if [ -z "$emulator" ]; then
	check "hone-worker needs no more than it says" alone hone-worker "hone-worker --version"
	check "libhone1 needs no more than it says" alone libhone1 "test -e /usr/lib/*/libhone.so.1"
	check "hone needs no more than it says" alone hone "hone --version && hone zoo steering -o /tmp/n.onnx && for s in 2 4 8 16; do hone tune /tmp/n.onnx --budget ${s}s && break; done && hone verify /tmp/n.onnx --kernels best"
	if [ -z "$short" ]; then
		check "honed needs no more than it says" alone honed "honed --version && honed --check && hone-sync --version"
		check "hone-fleet needs no more than it says" alone hone-fleet "hone-fleet --version && hone-fleet init"
		check "python3-hone needs no more than it says" alone python3-hone "python3 -c 'import hone; print(hone.version())'"
		check "libhone-dev needs no more than it says" alone libhone-dev "test -e /usr/lib/*/libhone.a"
		missing
		local_first
	fi
fi
close
end
