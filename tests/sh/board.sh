#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Another board's programs under QEMU's emulation of single programs: board.sh BUILD [--all]. BUILD is what `make BOARD=...` made.
# The emulator is told which processor it is (QEMU_CPU) and stops a program at an instruction that this processor does not have, so
# that code made for a better one does not pass. It says nothing of time. --all: every network of the data folder on every processor
# (those of nets/ on one), and every test that was built; without it a few. BOARD_S: seconds after which no check begins (each left
# out is a line "skip:"); 180, with --all 3000. BOARD_JOBS: how many parts (board_part.sh) run at once; 1, with --all one for each
# processor of this machine. SEEDS and HONE_TEST_SHARE (tests/lib/test.h): generated cases of a test. BOARD_BOX: the boxes of tuning.
# TEST_TIMES: prints how long each check takes, and how much of a processor. CASE: part of the checks' names.
build=$1 all=$2 start=$(date +%s)
unset HONE_WORKER # hone starts the worker beside it, not that of this machine
until=$((start + ${BOARD_S:-$([ -n "$all" ] && echo 3000 || echo 180)}))
skip() { # why
	printf 'skip: %s\n0 passed, 0 failed, 1 skipped\n' "$1"
	exit 0
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
export build all arch sysroot triple cpus least most holder direct dir until
sh tests/sh/board_part.sh able >"$dir/said" 2>&1 ||
	skip "programs for $arch cannot be run here: $(tail -1 "$dir/said") (a kernel before 6.7 needs root: systemctl restart systemd-binfmt)"
: >"$dir/results" # a line for each check: passed, failed or skipped
sh tests/sh/board_part.sh devices
[ -n "$all" ] || [ $arch != armhf ] || cpus="$least $most" # cortex-a15 has the instructions of cortex-a7

if [ ! -d "${HONE_DATA:-}/models" ]; then
	echo "skip: no networks: HONE_DATA is not set to the data folder"
	echo skipped >>"$dir/results"
	nets='' rounded=''
elif [ -z "$all" ]; then
	nets="mnist_8 dtln_1 policy_go1" rounded=mnist_8
else
	rounded="mnist_8 policy_go1 wml_image_classifier dtln_1 pulp_dronet_v2"
	nets=$(cd "$HONE_DATA/models" && ls -S -- */model.onnx | sed 's,/.*,,')
	[ ! -f "$HONE_DATA/nets/fill.c" ] || cc -O2 -o "$dir/fill" "$HONE_DATA/nets/fill.c" || echo failed >>"$dir/results"
fi
# What takes more than 25 s of an x86 server's processor.
longest="yolox_nano_416 r3d_18 resnet50 test_job test_libhone_crowd test_share test_libhone ncnn_yolo-fastest-1.1 vit_tiny_patch16_224
	cropfollow_nav resnet18 light_inception_v1 ncnn_googlenet test_taken test_llvm_emit test_tried test_hostile test_crypto test_zoo
	ncnn_shufflenet ncnn_mobilenet_ssd test_choices light_shufflenet test_llvm_fuse efficientnet_lite0 super_resolution_core
	test_task_bounds test_signed test_llvm_kernels test_strategy test_trajectory test_device_name ncnn_mobilenet test_apart_search"
parts() {
	for cpu in $cpus; do echo "steering $cpu"; done
	for n in $rounded; do echo "rounded $n"; done
	[ $arch != arm64 ] || [ -z "$rounded" ] || echo "sums $rounded"
	for n in $nets; do for cpu in $cpus; do echo "model $n $cpu"; done; done
	[ ! -x "$dir/fill" ] || (cd "$HONE_DATA/nets" && ls -d -- */weights.fill | sed 's,^,standard ,; s,/.*,,')
	for t in "$build"/tests/test_*; do
		case $t in *.o | *.d) continue ;; */test_halves) [ $arch != arm64 ] || [ -z "$rounded" ] || continue ;; esac
		[ ! -x "$t" ] || echo "test ${t##*/}"
	done
	[ ! -e "$build/honed" ] || echo sizes
}
# The longest first, or one job ends long after the others. Without --all the time ends in between: the most telling first.
parts >"$dir/parts"
for part in $longest; do
	[ -z "$all" ] || grep "^[a-z]* $part\( \|$\)" "$dir/parts"
done >"$dir/first"
grep -vxFf "$dir/first" "$dir/parts" >"$dir/rest"
jobs=${BOARD_JOBS:-$([ -n "$all" ] && nproc || echo 1)}
cat "$dir/first" "$dir/rest" | xargs -P "$jobs" -L 1 sh tests/sh/board_part.sh || {
	echo "board: a part of the checks ended early"
	echo failed >>"$dir/results"
}
times >"$dir/times"
[ -z "$all" ] || echo "board: $(($(date +%s) - start)) s, $(awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/)
	print int(60 * (u[1] + s[1]) + u[2] + s[2]) }' "$dir/times") s of a processor, $jobs jobs"
count() { grep -cx "$1" "$dir/results"; }
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
[ "$(count failed)" = 0 ]
