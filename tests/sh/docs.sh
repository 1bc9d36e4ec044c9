#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every command of the pages in configs/doc: docs.sh BUILD [PAGE.md...]. tests/sh/docs.py says how a page marks its commands.
# As root, with systemd-nspawn, the commands of a board run on one: systemd as PID 1, whose root is an overlay in memory over this
# machine's. Without that they are skipped. There is no network but the loopback.
b=$1
shift
if ! command -v python3 >/dev/null; then
	echo "skip: docs: no python3"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if readelf -Ws "$b/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: docs: a sanitizer's build"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
own=
[ "$(id -u)" != 0 ] || ! unshare -m -n true 2>/dev/null || own="unshare -m -n"
exec $own python3 -B tests/sh/docs.py "$b" ${own:+--board} "$@"
