#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What bench-gpu says of cuDNN, cuBLAS and cuBLASLt, on libraries that compute on the CPU: gpu_libs.sh BUILD
if ! command -v python3 >/dev/null; then
	echo "skip: no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
"$1/hone" -q zoo steering -o "$dir/steering.onnx" || exit 1
LD_LIBRARY_PATH=$(cd "$1/tests/fake" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} python3 -B tools/peers/test_gpu_libs.py "$dir/steering.onnx"
