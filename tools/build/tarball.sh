#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs what a board gets, to unpack in its root: tarball.sh BUILD BOARD VERSION SONAME static|dynamic FALLBACK.zst...
# static: programs that tune on the CPU and need none of the board's libraries. hone-sync is dynamic always, as libhone.so is.
set -e
b=$1 board=$2 version=$3 soname=$4 kind=$5
shift 5
strip=$(sh tools/build/board.sh "$board" triple)-strip
dir=$b/tarball root=$b/tarball/usr/local
rm -rf "$dir"
install -d "$root/bin" "$root/lib/hone" "$root/include" "$root/share/hone/boards"
install -m 644 configs/boards/*.conf "$root/share/hone/boards"
from=$b
[ "$kind" != static ] || from=$b/static
for p in "$from/hone" "$from/honed" "$from/hone-worker" "$b/hone-sync"; do $strip -o "$root/bin/$(basename "$p")" "$p"; done
$strip -o "$root/lib/$soname" "$b/libhone.so"
$strip -o "$root/lib/hone/libhone-device.so" "$b/libhone-device.so"
ln -s "$soname" "$root/lib/libhone.so"
install -m 644 agent/run/hone.h agent/run/hone.hpp "$root/include"
install -m 644 "$@" "$root/lib/hone"
sh tools/build/units.sh --install "$dir" /usr/local
# Unpacking leaves the board's own honed.conf alone: the example is in share/doc/hone/examples.
rm -rf "$root/lib/systemd/system/hone-fleet.service" "$dir/etc"
out=$b/hone-$version-$board-$kind.tar.gz
tar -C "$dir" --owner=0 --group=0 -czf "$out" .
echo "$out: $(find "$dir" -type f -exec cat {} + | wc -c) bytes installed"
rm -rf "$dir"
