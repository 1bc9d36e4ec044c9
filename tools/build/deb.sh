#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages in BUILD/deb: deb.sh BUILD VERSION [ARCH SYSROOT]. What they are made of is in configs/debian.
# ARCH: arm64 or armhf, with the sysroot that `make sysroot BOARD=generic-ARCH` makes. The same files give the same packages,
# whatever the folder, umask, time zone, locale and number of jobs are (tests/sh/deb-twice.sh builds twice, and compares).
set -e
b=$(realpath "$1") version=$2 arch=$3 sysroot=${4:+$(realpath "$4")}
dir=$b/deb src=$b/deb/hone-$version
sh tools/build/deps.sh dpkg-dev debhelper dh-python fakeroot
rm -rf "$dir"
mkdir -p "$src"
# A clone is packed as git lists it. Every other folder is packed whole, without builds: an unpacked tarball has no repository,
# and sources that were unpacked inside another repository are not in that repository's list.
list=$dir/files
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
	git ls-files -z >"$list"
else
	find . -mindepth 1 \( -path './build*' -o -samefile "$b" -o -name .git \) -prune -o ! -type d -print0 >"$list"
fi
tar --null -T "$list" -cf "$dir/files.tar"
tar -xf "$dir/files.tar" -C "$src"
[ -s "$src/Makefile" ] && [ "$(find "$src" ! -type d | wc -l)" = "$(tr -dc '\0' <"$list" | wc -c)" ] ||
	{ echo "hone: error: $src lacks files of $PWD: run make deb in the root of a complete clone, or in an unpacked tarball" >&2; exit 1; }
rm "$list" "$dir/files.tar"
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l configs/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
find "$src" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
tar -C "$dir" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cJf "$dir/hone_$version.orig.tar.xz" "hone-$version"
cp -r configs/debian "$src/debian"
chmod -R u=rwX,go=rX "$src" # whatever the umask of the clone was
cd "$src"
# No signature: who publishes the packages signs them. -d: the other architecture's libraries are in the sysroot.
if [ -n "$arch" ]; then
	[ -d "$sysroot" ] || { echo "hone: error: no sysroot: make sysroot BOARD=generic-$arch" >&2; exit 1; }
	SYSROOT=$sysroot dpkg-buildpackage -us -uc -B -d -a"$arch" -Pnocheck
else
	dpkg-buildpackage -us -uc
fi
cd "$dir" && rm -rf "$src" && ls ./*.deb
