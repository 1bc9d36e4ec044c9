#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a folder with the headers and libraries of another machine's Debian: sysroot.sh ARCH SUITE LIBC DIR. Packages are unpacked, none
# of their programs runs. It needs mmdebstrap and, for ARCH arm64 or armhf, Debian's cross compiler, which it installs if they are missing.
# LIBC is the Debian whose C library and libcurl the board has. If it is older than SUITE, then programs get the other libraries of SUITE
# from archives: of those the board needs none.
set -e
arch=$1 suite=$2 libc=$3 dir=$4
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
# Symbolic links with absolute targets lead out of the folder: the linker finds no library there, or one of this machine.
mend_links() {
	find "$dir/usr/lib" -type l -lname '/*' | while read -r link; do
		ln -sf "$(realpath -m --relative-to="$(dirname "$link")" "$dir$(readlink "$link")")" "$link"
	done
	for a in "$dir"/usr/lib/*/libuv_a.a; do [ ! -e "$a" ] || ln -sf libuv_a.a "$(dirname "$a")/libuv.a"; done
}
[ ! -e "$dir/.complete" ] || { mend_links; exit 0; }
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
# The mirror is the one that this machine uses.
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
unpack() { # suite, folder, packages
	mmdebstrap --quiet --variant=extract --architectures="$arch" --include="$3" "$1" "$2" "${mirror:-http://deb.debian.org/debian}" >"$dir.log" 2>&1 || {
		tail -5 "$dir.log" >&2
		echo "hone: error: mmdebstrap could not make $2; all that it said is in $dir.log" >&2
		exit 1
	}
}
unpack "$suite" "$dir" "$extra,libc6-dev,zlib1g-dev,libzstd-dev,libhwloc-dev,libprotobuf-c-dev,libjansson-dev,libuv1-dev,libinih-dev,libseccomp-dev,libmbedtls-dev,libcurl4-openssl-dev,libmicrohttpd-dev,libsqlite3-dev,libpq-dev,libpng-dev,libjpeg-dev,libxml2-dev,libz3-dev"
if [ "$libc" != "$suite" ]; then
	rm -rf "$dir.libc"
	unpack "$libc" "$dir.libc" libc6-dev,libcurl4-openssl-dev
	# The kernel's headers stay those of the newer suite: hone asks the running kernel what it has.
	rm -rf "$dir.libc/usr/include/linux" "$dir.libc"/usr/include/asm* "$dir.libc"/usr/include/*/asm
	# C++ headers use it where it is there, and the older C library has no such variable.
	rm -f "$dir"/usr/include/*/sys/single_threaded.h
	# What the linker finds as an archive alone, it takes from there. libcurl's archive needs others that Debian does not have.
	find "$dir/usr/lib" -name 'lib*.a' | while read -r a; do rm -f "${a%.a}.so"; done
	rm -f "$dir"/usr/lib/*/libuv.so
	for d in lib usr/lib usr/include; do cp -a --remove-destination "$dir.libc/$d/." "$dir/$d"; done
	find "$dir/usr/lib" -name libcurl.a -delete
	rm -rf "$dir.libc"
fi
rm -f "$dir.log"
mend_links
touch "$dir/.complete"
