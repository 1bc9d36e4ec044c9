#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the Python package (tools/python): python.sh BUILD. PYTHON: another interpreter. If that has no
# numpy, BUILD/python-venv gets one from PyPI if possible; otherwise tests that need it are skipped.
python=${PYTHON:-python3}
if readelf -Ws "$1/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: a sanitized library needs a sanitized Python"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if ! command -v "$python" >/dev/null; then
	echo "skip: no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if ! "$python" -c 'import numpy' 2>/dev/null; then
	venv=$1/python-venv
	"$venv/bin/python" -c 'import numpy' 2>/dev/null ||
		{ "$python" -m venv "$venv" && timeout 100 "$venv/bin/pip" install -q numpy; } >/dev/null 2>&1
	"$venv/bin/python" -c 'import numpy' 2>/dev/null && python=$venv/bin/python
fi
exec "$python" -B tools/python/test_hone.py "$1"
