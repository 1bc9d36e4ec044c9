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
install -m 644 agent/run/hone.h agent/run/hone.hpp kernels/library/hone_backend.h "$root/include"
install -m 644 "$@" "$root/lib/hone"
sh tools/build/units.sh --install "$dir" /usr/local
# Unpacking leaves the board's own honed.conf alone: the example is in share/doc/hone/examples.
rm -rf "$root/lib/systemd/system/hone-fleet.service" "$dir/etc"
# NEEDS: which Debian packages each file needs, by the names that Debian makes of libraries' names. ld-linux comes with libc6.
needs() { # file
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sed '
		/^ld-linux/d
		s/^lib\(c\|m\|dl\|rt\|pthread\)\.so\.[0-9]*$/libc6/
		s/^libz\.so\.1$/zlib1g/
		s/^libxml2\.so\.2$/libxml2/
		s/^libjpeg\.so\.62$/libjpeg62-turbo/
		s/^libgcc_s\.so\.1$/libgcc-s1/
		s/\([0-9]\)\.so\./\1-/
		s/\.so\.//' | sort -u | tr '\n' ' ' | sed 's/ $//'
}
install -d "$root/share/doc/hone/licenses"
install -m 644 LICENSE "$root/share/doc/hone"
# Of libraries inside static programs, and of LLVM, which is in hone-worker always.
sysroot= # of programs for this machine, its own packages
[ ! -e "$b/board" ] || { read -r _ && read -r sysroot; } <"$b/board"
inside=
[ "$kind" != static ] || inside="libc6-dev libstdc++-12-dev zlib1g-dev libzstd-dev libhwloc-dev libprotobuf-c-dev libjansson-dev libuv1-dev libinih-dev libseccomp-dev \
	libmbedtls-dev libpng-dev libjpeg62-turbo-dev libxml2-dev"
llvm=$(cd "$sysroot/usr/share/doc" && ls -d llvm-*-dev 2>/dev/null) || {
	echo "make: tarball: $sysroot/usr/share/doc has no licence of LLVM, which is in hone-worker: install llvm-dev with its documentation, or make sysroot again" >&2
	exit 1
}
for p in $llvm $inside; do
	install -m 644 "$sysroot/usr/share/doc/$p/copyright" "$root/share/doc/hone/licenses/$p"
done
for f in $(cd "$root" && find bin lib -type f | sort); do
	readelf -h "$root/$f" >/dev/null 2>&1 || continue
	words=$(needs "$root/$f")
	echo "$f: ${words:-nothing}"
done >"$root/share/doc/hone/NEEDS"
out=$b/hone-$version-$board-$kind.tar.gz
# The same files give the same tarball: their time is that of the version.
tar -C "$dir" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' configs/debian/changelog | head -1)" +%s)}" \
	-cf - . | gzip -9n >"$out"
echo "$out: $(find "$dir" -type f -exec cat {} + | wc -c) bytes installed; the board's packages that they need: share/doc/hone/NEEDS in it"
rm -rf "$dir"
