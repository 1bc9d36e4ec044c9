#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench-peers, bench-untuned, bench-quantized, bench-tvm: other libraries from PyPI into a virtual environment under $BUILD
# and from Debian, then the benchmark. A library that cannot be had is noted in $BUILD/peers/missing and left out. --tvm: bench-tvm; --test: only the part
# that needs none of them.
here=tools/peers
B=${BUILD:-build}
if [ "$1" = --test ]; then
	command -v python3 >/dev/null && exec python3 -B $here/test_measure.py
	echo "skip: no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
tool=bench_peers.py
[ "$1" = --tvm ] && shift && tool=bench_tvm.py
[ "$1" = --untuned ] && shift && tool=bench_untuned.py && only=onnxruntime
[ "$1" = --quantized ] && shift && tool=bench_quantized.py && only=onnxruntime
for a in "$@"; do # what needs no library
	case $a in -h | --help) exec python3 -B $here/$tool "$a" ;; esac
done
venv=$B/peers-venv
mkdir -p "$B/peers"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" || {
	echo "bench-peers: error: no virtual environment; install python3-venv" >&2
	exit 1
}
: >"$B/peers/missing"
# package, and what pip is to install where that is not its name alone: the wheel of pnnx asks for PyTorch, which converting
# ONNX does not need; TVM's tuner crashes with later versions of its FFI.
while read -r package what; do
	[ -n "$only" ] && [ "$package" != numpy ] && [ "$package" != onnx ] && [ "$package" != "$only" ] && continue
	case $what in
	*==*) ;; # of that version
	*) "$venv/bin/pip" show -q "$package" 2>/dev/null && continue ;;
	esac
	echo "installing $package" >&2
	# shellcheck disable=SC2086
	timeout 300 "$venv/bin/pip" install -q ${what:-$package} >"$B/peers/pip.log" 2>&1 ||
		echo "$package $(grep -v '^$' "$B/peers/pip.log" | tail -n 1 | cut -c 1-160)" >>"$B/peers/missing"
done <<END
numpy
onnx
onnxruntime
openvino
ncnn
pnnx --no-deps pnnx
MNN
opencv-python-headless
apache-tvm apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1
xgboost-cpu
psutil
cloudpickle
END
[ -n "$only" ] && exec "$venv/bin/python" -B $here/$tool --build "$B" "$@"
sh tools/build/deps.sh libdnnl-dev libxnnpack-dev libpthreadpool-dev libopenblas-dev || true
while read -r name libs; do
	# shellcheck disable=SC2086
	cc -O2 -std=gnu11 -o "$B/peers/chain_$name" $here/chain.c "$here/chain_$name.c" $libs >"$B/peers/cc.log" 2>&1 ||
		echo "$name $(grep -m 1 error "$B/peers/cc.log" | cut -c 1-160)" >>"$B/peers/missing"
done <<END
onednn -ldnnl
xnnpack -lXNNPACK -lpthreadpool -lm
openblas -lopenblas
END
exec "$venv/bin/python" -B $here/$tool --build "$B" "$@"
