#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing; does nothing where none is. Extra packages as arguments (clang).
command -v dpkg-query >/dev/null || exit 0
# --maybe PACKAGE...: for tests that say so where they cannot run; tried by root alone, where mounts are permitted.
if [ "$1" = --maybe ]; then
	shift
	if [ "$(id -u)" = 0 ] && ! dpkg-query -W "$@" >/dev/null 2>&1 && unshare -m mount -t tmpfs tmpfs /mnt 2>/dev/null; then
		apt-get -qq update
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
	fi >/dev/null 2>&1
	exit 0
fi
want="gcc g++ libc6-dev binutils zlib1g-dev libzstd-dev libhwloc-dev libprotobuf-c-dev protobuf-c-compiler libjansson-dev libuv1-dev libinih-dev libseccomp-dev zstd libmbedtls-dev libcurl4-openssl-dev libmicrohttpd-dev libsqlite3-dev libpq-dev libpng-dev libjpeg-dev"
# LLVM 19 makes the fastest kernels; an older one serves only where Debian has no 19 or LLVM_CONFIG asks for it.
llvm=llvm-19-dev
if [ -n "$LLVM_CONFIG" ] || command -v llvm-config-19 >/dev/null; then
	llvm=
fi
missing=
for p in $want $llvm "$@"; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
as=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "hone: error: missing packages:$missing; install them as root: apt-get install$missing" >&2
		exit 1
	fi
	as=sudo
fi
echo "installing$missing"
$as apt-get -qq update || echo "hone: apt-get update failed; trying the lists as they are" >&2
case "$missing" in *llvm-19-dev*)
	if ! apt-cache show llvm-19-dev >/dev/null 2>&1 && ls /usr/bin/llvm-config-1[4-8] >/dev/null 2>&1; then
		missing=$(echo "$missing" | sed 's/ llvm-19-dev//')
	fi ;;
esac
[ -z "$missing" ] && exit 0
$as env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null || {
	echo "hone: error: apt-get could not install$missing; its message is above" >&2
	exit 1
}
