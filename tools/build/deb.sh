#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages in BUILD/deb: deb.sh BUILD VERSION [ARCH SYSROOT]. What they are made of is in configs/debian.
# ARCH: arm64 or armhf, with the sysroot that `make sysroot BOARD=generic-ARCH` makes. The same files give the same packages.
# NATIVE=DIR: a complete build of the same files for this machine (make all), which another architecture's packages take manual pages and
# kernels from; without it they build that, too.
set -e
b=$(realpath "$1") version=$2 arch=$3 sysroot=${4:+$(realpath "$4")} native=${NATIVE:+$(realpath "$NATIVE")}
dir=$b/deb src=$b/deb/hone-$version
sh tools/build/deps.sh dpkg-dev debhelper dh-python fakeroot
rm -rf "$dir"
mkdir -p "$src"
# Of a clone, what git knows; of an unpacked tarball, all but builds.
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$src"
else
	tar --exclude='./build*' -cf - . | tar -xf - -C "$src"
fi
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l configs/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
find "$src" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
tar -C "$dir" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cJf "$dir/hone_$version.orig.tar.xz" "hone-$version"
cp -r configs/debian "$src/debian"
cd "$src"
# No signature: who publishes the packages signs them. -d: the other architecture's libraries are in the sysroot.
if [ -n "$arch" ]; then
	[ -d "$sysroot" ] || { echo "hone: error: no sysroot: make sysroot BOARD=generic-$arch" >&2; exit 1; }
	[ -z "$NATIVE" ] || tar -C "$native" --exclude='./deb*' --exclude='./tests' --exclude='./*venv' -cf - . | (mkdir build && tar -xf - -C build)
	SYSROOT=$sysroot dpkg-buildpackage -us -uc -B -d -a"$arch" -Pnocheck
else
	dpkg-buildpackage -us -uc
fi
cd "$dir" && rm -rf "$src" && ls ./*.deb
