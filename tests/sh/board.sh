#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Another board's programs under QEMU's emulation of single programs: board.sh BUILD [--all]. BUILD is what `make BOARD=...` made.
# The emulator is told which processor it is (QEMU_CPU) and stops a program at an instruction that this processor does not have, so
# that code made for a better one does not pass. It says nothing of time. --all: every network of the data folder on every processor
# (those of nets/ on one), and every test that was built; without it a few. BOARD_S: seconds after which no check begins (each left
# out is a line "skip:"); 180, with --all 3000. SEEDS and HONE_TEST_SHARE (tests/lib/test.h): generated cases of a test. BOARD_BOX:
# the boxes of tuning. TEST_TIMES: prints how long each check takes, and how much of a processor. CASE: part of the checks' names.
build=$1 all=$2 good=0 bad=0 skipped=0
unset HONE_WORKER # hone starts the worker beside it, not that of this machine
until=$(($(date +%s) + ${BOARD_S:-$([ -n "$2" ] && echo 3000 || echo 180)}))
end() {
	echo "$good passed, $bad failed, $skipped skipped"
	[ $bad = 0 ]
	exit
}
skip() { # why
	echo "skip: $1"
	skipped=$((skipped + 1))
	end
}
[ -f "$build/board" ] || skip "no build for another board in $build (make sysroot BOARD=generic-arm64 && make BOARD=generic-arm64)"
{ read -r arch && read -r sysroot; } <"$build/board"
case $arch in
arm64) emulator=qemu-aarch64 triple=aarch64-linux-gnu cpus="cortex-a72 cortex-a76 cortex-a53" least=cortex-a53 most=cortex-a76 ;;
armhf) emulator=qemu-arm triple=arm-linux-gnueabihf cpus="cortex-a7 cortex-a15 cortex-a9" least=cortex-a9 most=cortex-a7 ;;
*) skip "programs for $arch need no emulator" ;;
esac
command -v $emulator-static >/dev/null || skip "no $emulator-static on PATH (apt-get install qemu-user-static)"
dir=$(mktemp -d) || exit 1
holder=
trap '[ -z "$holder" ] || kill "$holder"; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
: >"$dir/all"
# hone starts hone-worker: the kernel must know how to run both. A registration in a user namespace of one's own leaves the
# machine as it is; kernels before 6.7 have only one for all, so that they need the machine's own.
# A process holds that namespace. If root starts it, it has all users, which tests of permissions need; else only root.
rule=$(ls /usr/lib/binfmt.d/$emulator.conf /usr/share/qemu/binfmt.d/$emulator.conf 2>/dev/null | head -1)
direct=
[ -e "/proc/sys/fs/binfmt_misc/$emulator" ] && direct=yes
hold() {
	[ "$(id -u)" = 0 ] && mapped='' || mapped=--map-root-user
	# shellcheck disable=SC2086
	unshare --user --mount $mapped sleep infinity &
	holder=$!
	until [ "$(readlink /proc/$holder/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do kill -0 $holder && sleep 0.1 || return; done
	for ids in uid gid; do
		[ -n "$mapped" ] || cat /proc/self/${ids}_map >/proc/$holder/${ids}_map || return
	done
	nsenter --target $holder --user --preserve-credentials --mount sh -c 'mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
		cat "$0" >/proc/sys/fs/binfmt_misc/register' "$rule"
}
[ -n "$direct" ] || hold 2>"$dir/said" || skip "programs for $arch cannot be run here: $(tail -1 "$dir/said") (a kernel before 6.7 needs root: systemctl restart systemd-binfmt)"
# Linux tells 32-bit programs the processor in /proc/cpuinfo alone, where the emulator shows this machine's.
cat >"$dir/inside" <<'END'
info=${0%/*}/cpuinfo-$QEMU_CPU
[ ! -f "$info" ] || mount --bind "$info" /proc/cpuinfo || exit 99
cd "$1" || exit 99
shift
exec "$@"
END
for part in c07:cortex-a7 c09:cortex-a9 c0f:cortex-a15; do
	[ $arch != armhf ] || printf '%s\n' "processor : 0" "CPU implementer : 0x41" "CPU architecture: 7" "CPU variant : 0x0" \
		"CPU part : 0x${part%:*}" "CPU revision : 5" >"$dir/cpuinfo-${part#*:}"
done
on() { # processor, command...
	processor=$1
	shift
	if [ -n "$direct" ]; then
		QEMU_CPU=$processor QEMU_LD_PREFIX=$sysroot "$@"
	else
		QEMU_CPU=$processor QEMU_LD_PREFIX=$sysroot nsenter --target $holder --user --preserve-credentials --mount unshare --mount sh "$dir/inside" "$PWD" "$@"
	fi
}
on $least "$build/hone" version >"$dir/said" 2>&1 ||
	skip "programs for $arch cannot be run here: $(tail -1 "$dir/said") (a kernel before 6.7 needs root: systemctl restart systemd-binfmt)"

# A kernel that crashes the worker is no failure to hone, which takes another one: here an instruction that the processor lacks is.
illegal="uncaught target signal 4"
cpu_s() { # of all that had ended when "times" wrote $dir/times, which a subshell cannot know
	awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); print int(60 * (u[1] + s[1]) + u[2] + s[2]) }' "$dir/times"
}
check() { # what, command...
	what=$1
	case $what in *"${CASE:-}"*) ;; *) return ;; esac
	times >"$dir/times"
	start=$(date +%s) used=$(cpu_s)
	shift
	: >"$dir/all"
	if [ "$(date +%s)" -ge "$until" ]; then
		echo "skip: $what: the time is over (BOARD_S)"
		skipped=$((skipped + 1))
	elif "$@" >"$dir/said" 2>&1 && ! grep -q "$illegal" "$dir/said" "$dir/all"; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "board: $what:"
		{ grep -h "$illegal" "$dir/said" "$dir/all" | sort | uniq -c; grep -aE "not so|^FAILED" "$dir/said" | head -8; tail -4 "$dir/said"; } | sed 's/^/	/'
	fi
	[ -z "${TEST_TIMES:-}" ] || { times >"$dir/times"; echo "$(($(date +%s) - start)) s ($(($(cpu_s) - used)) s of a processor)  $what"; }
}
says() { # words, processor, command...
	words=$1
	shift
	{ on "$@" >"$dir/all" 2>&1 && grep -q -- "$words" "$dir/all"; } || { cat "$dir/all"; false; }
}
tells() { # words, processor, command..., which may fail
	words=$1
	shift
	on "$@" >"$dir/all" 2>&1
	grep -q -- "$words" "$dir/all"
}
# A box that a busy machine leaves no time is no failure.
boxed() { # processor, command...
	on "$@" >"$dir/all" 2>&1 || grep -q "ended before any kernel was tried" "$dir/all" || { cat "$dir/all"; false; }
}
h=$build/hone
for cpu in $cpus; do
	[ $arch = armhf ] && [ -n "$direct" ] || check "hone devices names $cpu" says "^cpu: $cpu," $cpu "$h" devices --cache "$dir/$cpu"
done
[ $arch != armhf ] || check "hone devices names armv7-neon" says "armv7-neon" $least "$h" devices --cache "$dir/$least"

[ -n "$all" ] || [ $arch != armhf ] || cpus="$least $most" # cortex-a15 has the instructions of cortex-a7

# A network without data: its kernels against the reference, as they come, as compiled by the emulated worker, and tuned.
net=$dir/steering.onnx box=${BOARD_BOX:-20s}
mkdir "$dir/none"
check "hone zoo" on $least "$h" zoo steering -o "$net"
for cpu in $cpus; do
	check "the network is right without tuning on $cpu" on $cpu "$h" verify "$net" --cache "$dir/none"
	check "tuning tries kernels on $cpu" says " [1-9][0-9]* trials\? in" $cpu "$h" tune "$net" --budget "$box" --cache "$dir/$cpu"
	check "the tuned network is right on $cpu" on $cpu "$h" verify "$net" --kernels best --cache "$dir/$cpu"
done
# What was tuned for the best processor must not reach the least, where its instructions trap.
mkdir -p "$dir/$most" && cp -r "$dir/$most" "$dir/foreign"
check "the cache of $most does not harm $least" on $least "$h" verify "$net" --cache "$dir/foreign"

# Networks with the outputs of another runtime, with kernels that the emulated worker compiles.
nets="mnist_8 dtln_1 policy_go1"
rounded=mnist_8
if [ -z "${HONE_DATA:-}" ] || [ ! -d "$HONE_DATA/models" ]; then
	echo "skip: no networks: HONE_DATA is not set to the data folder"
	skipped=$((skipped + 1))
	nets='' rounded=''
elif [ -n "$all" ]; then
	rounded="mnist_8 policy_go1 wml_image_classifier dtln_1 pulp_dronet_v2"
	# The small ones first: what a network costs is about the size of its file.
	nets=$(cd "$HONE_DATA/models" && ls -S -r -- */model.onnx | sed 's,/.*,,')
fi
for n in $rounded; do
	d=$HONE_DATA/models/$n
	check "$n is quantised" on $most "$h" quantize "$d/model.onnx" --data "$d" --scan 0 -o "$dir/$n.onnx"
	for cpu in $most $least; do
		check "$n of 8-bit integers on $cpu" says "^PASS" $cpu timeout 600 "$h" verify "$dir/$n.onnx" --kernels default --cache "$dir/none"
		if [ $arch = armhf ]; then # which has no instructions for 16-bit floats
			check "hone tune says that there are no 16-bit floats on $cpu" tells "stay at 32 bits" $cpu "$h" tune "$d/model.onnx" \
				--level half-sum --budget 5s --cache "$dir/half-$cpu"
			check "$n stays at 32 bits on $cpu" says "^levels of the kernels: [0-9]* fp32$" $cpu timeout 600 "$h" verify "$d/model.onnx" \
				--level half-sum --kernels default --cache "$dir/half-$cpu"
			continue
		fi
		check "$n with 16-bit floats is tuned on $cpu" boxed $cpu "$h" tune "$d/model.onnx" --level half-sum --budget "$box" --cache "$dir/half-$cpu"
		check "$n with 16-bit floats on $cpu" says "^PASS" $cpu timeout 600 "$h" verify "$d/model.onnx" --level half-sum --kernels best --cache "$dir/half-$cpu"
	done
done
# The emulator computes with 16-bit floats in software, and with longer ones mostly not: a box seldom keeps a kernel with sums of
# 16-bit floats. A program chooses such schedules and puts their kernels into a cache. Each network must then run at least one.
halves=$build/tests/test_halves
if [ -n "$rounded" ] && [ $arch = arm64 ] && [ -z "$all" ] && [ ! -x "$halves" ]; then
	echo "skip: sums of 16-bit floats in networks: $halves was not built"
	skipped=$((skipped + 1))
elif [ -n "$rounded" ] && [ $arch = arm64 ]; then
	HALVES=$rounded HALVES_CACHE=$dir/halves HONE_WORKER=$(realpath "$build")/hone-worker \
		check "kernels with sums of 16-bit floats are made on $most" says "^1 passed, 0 failed, 0 skipped" $most timeout 1200 "$halves"
	grep "^[a-z].* kernels with products of 16-bit" "$dir/all" | sed 's/^/board: /'
	for n in $rounded; do
		check "$n with sums of 16-bit floats on $most" says "^levels of the kernels: .*[1-9][0-9]* half-sum" $most timeout 600 "$h" verify \
			"$HONE_DATA/models/$n/model.onnx" --level half-sum --kernels best --cache "$dir/halves"
	done
fi
# The emulator must stop code for a better processor, or all of this would show nothing. On arm64 a library tells hone of instructions for
# products of bytes and sums of 16-bit floats that the processor does not have. For armhf hone knows no such choice: a program stands for it.
cat >"$dir/arm64.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long type)
{
	unsigned long (*real)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
	return real(type) | (type == AT_HWCAP ? HWCAP_ASIMDDP | HWCAP_ASIMDHP | HWCAP_FPHP : 0);
}
END
cat >"$dir/armhf.c" <<'END'
int main(int n, char **args)
{
	int r = args != 0;
	__asm__ volatile(".arch_extension idiv\n\tsdiv %0, %1, %1" : "=r"(r) : "r"(n));
	return r - 1;
}
END
stopped_arm64() {
	QEMU_SET_ENV=LD_PRELOAD=$dir/better on $least "$h" verify "$dir/mnist_8.onnx" --kernels default --cache "$dir/none" 2>&1 | grep "$illegal" >/dev/null
}
stopped_armhf() {
	on $most "$dir/better" && on $least "$dir/better" 2>&1 | grep "$illegal" >/dev/null
}
flags="-mcpu=cortex-a7 -B$sysroot/usr/lib/$triple"
[ $arch != arm64 ] || flags="-shared -fPIC"
# shellcheck disable=SC2086
if [ -n "$rounded" ] && $triple-gcc --sysroot="$sysroot" $flags -o "$dir/better" "$dir/$arch.c" 2>"$dir/said"; then
	check "code for a better processor is stopped on $least" stopped_$arch
fi
for n in $nets; do
	for cpu in $cpus; do
		check "$n on $cpu" says "^1 passed, 0 failed" $cpu timeout 600 "$h" onnx-test "$HONE_DATA/models/$n" --kernels default
	done
done

# Tests that were built for the board.
tested() { # program
	on $most timeout 1200 "$1" >"$dir/all" 2>&1 || { rc=$?; [ $rc != 124 ] || echo "no end within 1200 s"; cat "$dir/all"; return $rc; }
}
for t in "$build"/tests/test_*; do
	case $t in *.o | *.d) continue ;; "$halves") [ $arch != arm64 ] || [ -z "$rounded" ] || continue ;; esac
	[ -x "$t" ] || continue
	: >"$dir/all"
	HONE_WORKER=$(realpath "$build")/hone-worker SEEDS=${SEEDS:-5} HONE_TEST_SHARE=${HONE_TEST_SHARE:-25} check "$(basename "$t") on $most" tested "$t"
	sed -n "s/^skip: /skip: $(basename "$t"): /p" "$dir/all" | sort -u >"$dir/skips" # what a test leaves out, with its reason
	cat "$dir/skips"
	skipped=$((skipped + $(wc -l <"$dir/skips")))
done
# Standard networks, which are stored without weights: the small ones first, each with its weights on one processor.
filled() { # network
	rm -rf "$dir/net"
	cp -r "$HONE_DATA/nets/$1" "$dir/net" && chmod -R u+w "$dir/net" && "$dir/fill" "$dir/net" >"$dir/all" &&
		says "^1 passed, 0 failed" $most timeout 600 "$h" onnx-test "$dir/net" --kernels default
}
if [ -n "$all" ] && [ -n "$nets" ] && [ -f "$HONE_DATA/nets/fill.c" ] && cc -O2 -o "$dir/fill" "$HONE_DATA/nets/fill.c"; then
	for n in $(awk '{ n = $1 + 4 * $2; if (n > most[FILENAME]) most[FILENAME] = n }
		END { for (f in most) print most[f], f }' "$HONE_DATA"/nets/*/weights.fill | sort -n | sed 's,/weights.fill$,,; s,.*/,,'); do
		check "$n on $most" filled "$n"
	done
fi
[ ! -e "$build/honed" ] || check "sizes and versions of glibc" sh tests/sh/footprint.sh "$build"
end
