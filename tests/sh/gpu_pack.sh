#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tarball of make gpu-pack works without the build folder: two parts of the benchmark on the CUDA driver of the tests.
# gpu_pack.sh BUILD
build=$1 good=0 bad=0
check() { # words, then a command that must succeed
	what=$1
	shift
	if "$@"; then good=$((good + 1)); else
		bad=$((bad + 1))
		echo "FAILED $what"
	fi
}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
begin() { env -i PATH="$PATH" HOME="$dir" TMPDIR="$dir" sh "$dir/hone-gpu/bench-gpu" --fake "$@" 2>"$dir/err"; }
says() { # words of the result
	grep -qF "$1" "$dir/out.json" || ! cat "$dir/err" "$dir/out.json"
}
check "the tarball is made" sh tools/bench/gpu_pack.sh "$build" >"$dir/pack"
check "it is unpacked" tar -C "$dir" -xf "$build/hone-gpu.tar.gz"
check "the benchmark ends" begin --parts versions,faults -o "$dir/out.json"
check "the device is listed" says '"Fake C1"'
check "faults are drilled" says '"hang": {"good": true'
check "no library comes from elsewhere" sh -c "! ldd '$dir'/hone-gpu/build/hone-worker | grep -q 'not found'"
if command -v python3 >"$dir/which"; then
	check "the result is JSON" sh -c "python3 -m json.tool '$dir/out.json' >'$dir/json'"
fi
check "unknown parts are refused" sh -c '! "$@"' sh sh "$dir/hone-gpu/bench-gpu" --parts nonsense 2>"$dir/err"
check "and named" grep -q 'unknown part nonsense' "$dir/err"
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
