#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Silero VAD 5 and 6, whose sample rate and batch choose branches of If, against ONNX Runtime: silero.sh BUILD [--time ARGS].
# --time: make bench-silero, their speed instead of their answers.
# Models: SILERO, a folder with wheels of silero-vad unpacked (VERSION/silero_vad/data), or from PyPI. ONNX
# Runtime: that of BUILD/peers-venv (make bench-untuned). Without them the test is skipped.
build=$1 python=$1/peers-venv/bin/python
skip() { echo "skip: $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
readelf -Ws "$build/libhone.so" | grep -q '__[at]san_' && skip "a sanitized library needs a sanitized Python"
"$python" -c 'import numpy, onnxruntime' 2>/dev/null || skip "no onnxruntime in $build/peers-venv"
models=$SILERO
if [ -z "$models" ]; then
	models=$(mktemp -d) || exit 1
	trap 'rm -rf "$models"' EXIT
	for v in 5.1.2 6.2.0 6.2.3; do
		timeout 60 "$python" -m pip download -q --no-deps -d "$models" silero-vad==$v >/dev/null 2>&1 &&
			"$python" -m zipfile -e "$models/silero_vad-$v-py3-none-any.whl" "$models/$v" || skip "no silero-vad $v from PyPI"
	done
fi
if [ "$2" = --time ]; then
	shift 2
	HONE_LIBRARY=$build/libhone.so BUILD=$build "$python" -B tools/peers/bench_silero.py "$models" "$@"
	exit
fi
HONE_LIBRARY=$build/libhone.so "$python" -B tests/sh/silero.py "$models"
