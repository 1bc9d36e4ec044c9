#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a folder with the headers and libraries of another machine's Debian: sysroot.sh ARCH SUITE DIR. Packages are unpacked, none of
# their programs runs. It needs mmdebstrap and, for ARCH arm64 or armhf, Debian's cross compiler, which it installs if they are missing.
set -e
arch=$1 suite=$2 dir=$3
case $arch in
arm64) compiler="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu" ;;
armhf) compiler="gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf" ;;
amd64) compiler= ;;
*) echo "hone: error: no sysroot for the architecture '$arch': arm64, armhf or amd64" >&2; exit 1 ;;
esac
# LLVM 19 makes the fastest kernels; Debian 11 has 16 at most.
case $suite in
bookworm) extra=llvm-19-dev,libstdc++-12-dev ;;
bullseye) extra=llvm-16-dev,libstdc++-10-dev ;;
*) echo "hone: error: no sysroot of Debian's '$suite': bookworm or bullseye" >&2; exit 1 ;;
esac
# shellcheck disable=SC2086
sh tools/build/deps.sh mmdebstrap $compiler
[ ! -e "$dir/.complete" ] || exit 0
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
# The mirror is the one that this machine uses.
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
mmdebstrap --quiet --variant=extract --architectures="$arch" \
	--include="$extra,libc6-dev,zlib1g-dev,libzstd-dev,libhwloc-dev,libprotobuf-c-dev,libjansson-dev,libuv1-dev,libinih-dev,libseccomp-dev,libmbedtls-dev,libcurl4-openssl-dev,libmicrohttpd-dev,libsqlite3-dev,libpq-dev,libpng-dev,libjpeg-dev,libxml2-dev,libz3-dev" \
	"$suite" "$dir" "${mirror:-http://deb.debian.org/debian}" >"$dir.log" 2>&1 || {
	tail -5 "$dir.log" >&2
	echo "hone: error: mmdebstrap could not make $dir; all that it said is in $dir.log" >&2
	exit 1
}
rm -f "$dir.log"
# Symbolic links with absolute targets lead out of the folder.
find "$dir/usr/lib" -type l -lname '/*' | while read -r link; do
	ln -sf "$(realpath -m --relative-to="$(dirname "$link")" "$dir$(readlink "$link")")" "$link"
done
touch "$dir/.complete"
