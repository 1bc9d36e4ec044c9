#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Cuts the power of a block device under ext4: fills a cache on it while QEMU's blklogwrites logs every write and flush,
# then mounts and opens CUTS states that a cut may leave (tests/lib/cuts.c). Usage: torture.sh BUILD.
# Needs root, loop devices, FUSE and qemu-storage-daemon; says so if one is missing.
cuts=${CUTS:-1000} commits=${COMMITS:-300} prog=$1/tests/cuts
for need in qemu-storage-daemon losetup mkfs.ext4; do
	command -v $need >/dev/null || { echo "skip: block-level cuts: no $need"; exit 0; }
done
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] && [ -e /dev/loop-control ] || { echo "skip: block-level cuts: need root, FUSE and loop devices"; exit 0; }
d=$(mktemp -d) loop='' daemon=''
clean() {
	umount "$d/mnt" 2>/dev/null
	[ -n "$loop" ] && losetup -d "$loop"
	[ -n "$daemon" ] && kill "$daemon" && wait "$daemon"
	loop='' daemon=''
}
trap 'clean 2>/dev/null; rm -rf "$d"' EXIT
mkdir "$d/mnt"
truncate -s 8M "$d/base.img"
mkfs.ext4 -q -F -J size=1 "$d/base.img" 2>/dev/null || mkfs.ext4 -q -F "$d/base.img"
cp "$d/base.img" "$d/work.img"
: >"$d/log"
: >"$d/export.img"
qemu-storage-daemon --blockdev driver=file,node-name=f,filename="$d/work.img" --blockdev driver=file,node-name=l,filename="$d/log" \
	--blockdev driver=blklogwrites,node-name=w,file=f,log=l,log-sector-size=512 \
	--export type=fuse,id=e,node-name=w,mountpoint="$d/export.img",writable=on &
daemon=$!
for i in 1 2 3 4 5 6 7 8 9 10; do
	[ "$(stat -c %s "$d/export.img")" = 8388608 ] && break
	sleep 0.1
done
loop=$(losetup -f --show "$d/export.img") && mount "$loop" "$d/mnt" || { echo "skip: block-level cuts: cannot mount the export"; exit 0; }
"$prog" run "$d/mnt/cache" "$d/log" "$d/acks" "$commits" || exit 1
clean
"$prog" cut "$d/base.img" "$d/log" "$d/acks" "$d/mnt" "$cuts"
