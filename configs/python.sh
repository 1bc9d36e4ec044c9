#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the Python package (tools/python) where there is a Python: python.sh BUILD. PYTHON: another one, with numpy.
python=${PYTHON:-python3}
if readelf -Ws "$1/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: a sanitized library needs a sanitized Python"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
command -v "$python" >/dev/null && exec "$python" -B tools/python/test_hone.py "$1"
echo "skip: no python3"
echo "0 passed, 0 failed, 1 skipped"
