#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A part of board.sh, which says what it exports, runs parts at once and counts their results: board_part.sh KIND [ARGUMENT...].
# The kinds are the functions part_KIND. Parts share the folder $dir, and each has a folder of its own, $own.
# shellcheck disable=SC2154 # board.sh sets the variables
own=$dir/own.$$ h=$build/hone box=${BOARD_BOX:-20s} net=$dir/steering.onnx limit_s=1500
mkdir -p "$own" "$dir/none" || exit 1
trap 'rm -rf "$own"' EXIT
trap 'exit 1' INT TERM HUP
: >"$own/all"
on() { # processor, command...
	processor=$1
	shift
	if [ -n "$direct" ]; then
		QEMU_CPU=$processor QEMU_LD_PREFIX=$sysroot "$@"
	else
		QEMU_CPU=$processor QEMU_LD_PREFIX=$sysroot nsenter --target $holder --user --preserve-credentials --mount unshare --mount sh "$dir/inside" "$PWD" "$@"
	fi
}

# A kernel that crashes the worker is no failure to hone, which takes another one: here an instruction that the processor lacks is.
illegal="uncaught target signal 4"
cpu_s() { # of all that had ended when "times" wrote $own/times, which a subshell cannot know
	awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); print int(60 * (u[1] + s[1]) + u[2] + s[2]) }' "$own/times"
}
skipped() { # how many
	for _ in $(seq "$1"); do echo skipped; done >>"$dir/results"
}
check() { # what, command...
	what=$1
	case $what in *"${CASE:-}"*) ;; *) return ;; esac
	times >"$own/times"
	start=$(date +%s) used=$(cpu_s)
	shift
	: >"$own/all"
	if [ "$start" -ge "$until" ]; then
		echo "skip: $what: the time is over (BOARD_S)"
		skipped 1
		return
	fi
	if "$@" >"$own/said" 2>&1 && ! grep -q "$illegal" "$own/said" "$own/all"; then
		echo passed >>"$dir/results"
	else
		echo failed >>"$dir/results"
		echo "board: $what:"
		{ grep -h "$illegal" "$own/said" "$own/all" | sort | uniq -c; grep -aE "not so|^FAILED" "$own/said" | head -8; tail -4 "$own/said"; } | sed 's/^/	/'
	fi >"$own/shown"
	times >"$own/times"
	[ -z "${TEST_TIMES:-}" ] || echo "$(($(date +%s) - start)) s ($(($(cpu_s) - used)) s of a processor)  $what" >>"$own/shown"
	cat "$own/shown" # in one piece: others write, too
}
failed() { # status of what wrote $own/all
	cat "$own/all"
	[ "$1" != 124 ] || echo "no end within $limit_s s"
	return 1
}
says() { # words, processor, command...
	words=$1
	shift
	{ on "$@" >"$own/all" 2>&1 && grep -q -- "$words" "$own/all"; } || failed $?
}
tells() { # words, processor, command..., which may fail
	words=$1
	shift
	on "$@" >"$own/all" 2>&1
	grep -q -- "$words" "$own/all"
}
# A box that a busy machine leaves no time is no failure.
boxed() { # processor, command...
	on "$@" >"$own/all" 2>&1 || grep -q "ended before any kernel was tried" "$own/all" || { cat "$own/all"; false; }
}

part_able() {
	on "$least" "$h" version
}
part_devices() {
	for cpu in $cpus; do
		[ "$arch" = armhf ] && [ -n "$direct" ] || check "hone devices names $cpu" says "^cpu: $cpu," $cpu "$h" devices --cache "$dir/$cpu"
	done
	[ "$arch" != armhf ] || check "hone devices names armv7-neon" says "armv7-neon" "$least" "$h" devices --cache "$dir/$least"
	check "hone zoo" on "$least" "$h" zoo steering -o "$net"
}
# A network without data: its kernels against the reference, as they come, as compiled by the emulated worker, and tuned.
part_steering() { # processor
	check "the network is right without tuning on $1" on "$1" "$h" verify "$net" --cache "$dir/none"
	check "tuning tries kernels on $1" says " [1-9][0-9]* trials\? in" "$1" "$h" tune "$net" --budget "$box" --cache "$dir/$1"
	check "the tuned network is right on $1" on "$1" "$h" verify "$net" --kernels best --cache "$dir/$1"
	[ "$1" = "$most" ] || return
	# What was tuned for the best processor must not reach the least, where its instructions trap.
	mkdir -p "$dir/$most" && cp -r "$dir/$most" "$own/foreign"
	check "the cache of $most does not harm $least" on "$least" "$h" verify "$net" --cache "$own/foreign"
}
part_rounded() { # network
	n=$1
	d=$HONE_DATA/models/$n
	check "$n is quantised" on "$most" "$h" quantize "$d/model.onnx" --data "$d" --scan 0 -o "$own/$n.onnx"
	for cpu in $most $least; do
		check "$n of 8-bit integers on $cpu" says "^PASS" $cpu timeout $limit_s "$h" verify "$own/$n.onnx" --kernels default --cache "$dir/none"
		if [ "$arch" = armhf ]; then # which has no instructions for 16-bit floats
			check "hone tune says that there are no 16-bit floats on $cpu" tells "stay at 32 bits" $cpu "$h" tune "$d/model.onnx" \
				--level half-sum --budget 5s --cache "$own/half-$cpu"
			check "$n stays at 32 bits on $cpu" says "^levels of the kernels: [0-9]* fp32$" $cpu timeout $limit_s "$h" verify "$d/model.onnx" \
				--level half-sum --kernels default --cache "$own/half-$cpu"
			continue
		fi
		check "$n with 16-bit floats is tuned on $cpu" boxed $cpu "$h" tune "$d/model.onnx" --level half-sum --budget "$box" --cache "$own/half-$cpu"
		check "$n with 16-bit floats on $cpu" says "^PASS" $cpu timeout $limit_s "$h" verify "$d/model.onnx" --level half-sum --kernels best --cache "$own/half-$cpu"
	done
	[ "$n" != mnist_8 ] || stopping
}
# The emulator must stop code for a better processor, or all of this would show nothing. On arm64 a library tells hone of instructions for
# products of bytes and sums of 16-bit floats that the processor does not have. For armhf hone knows no such choice: a program stands for it.
stopping() {
	cat >"$own/arm64.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long type)
{
	unsigned long (*real)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
	return real(type) | (type == AT_HWCAP ? HWCAP_ASIMDDP | HWCAP_ASIMDHP | HWCAP_FPHP : 0);
}
END
	cat >"$own/armhf.c" <<'END'
int main(int n, char **args)
{
	int r = args != 0;
	__asm__ volatile(".arch_extension idiv\n\tsdiv %0, %1, %1" : "=r"(r) : "r"(n));
	return r - 1;
}
END
	flags="-mcpu=cortex-a7 -B$sysroot/usr/lib/$triple"
	[ "$arch" != arm64 ] || flags="-shared -fPIC"
	# shellcheck disable=SC2086
	if $triple-gcc --sysroot="$sysroot" $flags -o "$own/better" "$own/$arch.c" 2>"$own/said"; then
		check "code for a better processor is stopped on $least" stopped_$arch
	fi
}
stopped_arm64() {
	QEMU_SET_ENV=LD_PRELOAD=$own/better on "$least" "$h" verify "$own/mnist_8.onnx" --kernels default --cache "$dir/none" 2>&1 | grep "$illegal" >/dev/null
}
stopped_armhf() {
	on "$most" "$own/better" && on "$least" "$own/better" 2>&1 | grep "$illegal" >/dev/null
}
# The emulator computes with 16-bit floats in software, and with longer ones mostly not: a box seldom keeps a kernel with sums of
# 16-bit floats. A program chooses such schedules and puts their kernels into a cache. Each network must then run at least one.
part_sums() { # networks
	halves=$build/tests/test_halves
	if [ -z "$all" ] && [ ! -x "$halves" ]; then
		echo "skip: sums of 16-bit floats in networks: $halves was not built"
		skipped 1
		return
	fi
	HALVES=$* HALVES_CACHE=$own/halves HONE_WORKER=$(realpath "$build")/hone-worker \
		check "kernels with sums of 16-bit floats are made on $most" says "^1 passed, 0 failed, 0 skipped" "$most" timeout $limit_s "$halves"
	grep "^[a-z].* kernels with products of 16-bit" "$own/all" | sed 's/^/board: /'
	for n; do
		check "$n with sums of 16-bit floats on $most" says "^levels of the kernels: .*[1-9][0-9]* half-sum" "$most" timeout $limit_s "$h" verify \
			"$HONE_DATA/models/$n/model.onnx" --level half-sum --kernels best --cache "$own/halves"
	done
}
part_model() { # network, processor
	check "$1 on $2" says "^1 passed, 0 failed" "$2" timeout $limit_s "$h" onnx-test "$HONE_DATA/models/$1" --kernels default
}
tested() { # program
	on "$most" timeout $limit_s "$1" >"$own/all" 2>&1 || failed $?
}
# A test that was built for the board. What it leaves out it says, with its reason.
part_test() { # its name
	HONE_WORKER=$(realpath "$build")/hone-worker SEEDS=${SEEDS:-5} HONE_TEST_SHARE=${HONE_TEST_SHARE:-25} check "$1 on $most" tested "$build/tests/$1"
	sed -n "s/^skip: /skip: $1: /p" "$own/all" | sort -u >"$own/skips"
	cat "$own/skips"
	skipped "$(wc -l <"$own/skips")"
}
filled() { # network
	cp -r "$HONE_DATA/nets/$1" "$own/net" && chmod -R u+w "$own/net" && "$dir/fill" "$own/net" >"$own/all" &&
		says "^1 passed, 0 failed" "$most" timeout $limit_s "$h" onnx-test "$own/net" --kernels default
}
# Standard networks, which are stored without weights: each with its weights on one processor.
part_standard() { # network
	check "$1 on $most" filled "$1"
}
part_sizes() {
	check "sizes and versions of glibc" sh tests/sh/footprint.sh "$build"
}
kind=$1
shift
"part_$kind" "$@" || [ "$kind" != able ]
