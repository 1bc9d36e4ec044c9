#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests what other systems' builders take of hone (configs/yocto, buildroot, pi-gen, jetson): integrate.sh BUILD. Their own tools are
# not here, so tests/sh/integrate.py says of each how far it is checked. ARM=TARBALL of generic-arm64: the stage for
# pi-gen runs in a Debian root of arm64, too, which QEMU emulates.
b=$1
if ! command -v python3 >/dev/null || readelf -Ws "$b/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: integrate: no python3, or a sanitizer's build"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
own=
[ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null || own="unshare -m"
exec $own python3 -B tests/sh/integrate.py "$b" ${own:+--root}
