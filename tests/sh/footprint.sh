#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sizes of stripped programs, and which versions of glibc's symbols they need: footprint.sh BUILD. BUILD may be of another board.
b=$1 good=0 bad=0 skipped=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
end() {
	echo "$good passed, $bad failed, $skipped skipped"
	[ $bad = 0 ]
	exit
}
check() { # what is wrong, command...
	what=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "footprint: $what"
		sed 's/^/	/' "$dir/said"
	fi
}
arch='' strip=strip libc=''
[ ! -f "$b/board" ] || { read -r arch && read -r _ && read -r libc; } <"$b/board"
case $arch in
arm64) strip=aarch64-linux-gnu-strip ;;
armhf) strip=arm-linux-gnueabihf-strip ;;
esac
if readelf -Ws "$b/honed" | grep -q '__[at]san_'; then
	echo "skip: sanitized programs are larger"
	skipped=1
	end
fi
files="hone honed hone-sync hone-worker libhone.so libhone-device.so"
for f in $files; do
	[ ! -e "$b/$f" ] || $strip -o "$dir/$f" "$b/$f" || exit 1
done
bytes() { # file...
	(cd "$dir" && cat "$@" | wc -c)
}
most() { # limit, what, file...
	limit=$1 what=$2
	shift 2
	n=$(bytes "$@")
	check "$what: $n bytes stripped, more than $limit" test "$n" -le "$limit"
}
# A worker with the code generator for PTX, which is a second one, is larger.
ptx=0
! grep -q LLVMInitializeNVPTXTarget "$b/hone-worker" || ptx=10000000
# Programs for a board with an older C library link all other libraries statically.
small=1500000
[ "$libc" != bullseye ] || small=2500000
most $small "honed, hone-sync and libhone.so" honed hone-sync libhone.so
most $((30000000 + ptx)) hone-worker hone-worker
if [ -e "$dir/libhone-device.so" ]; then
	cat "$b"/gen/*.fallback.zst >"$dir/kernels"
	# shellcheck disable=SC2086
	most $((35000000 + ptx)) "everything" $files kernels
fi
# Static programs start without the board's libraries.
if [ -e "$b/static/honed" ] && [ "$arch" = arm64 ] && command -v qemu-aarch64-static >/dev/null; then
	for f in hone honed hone-worker; do
		check "$f, which is static, does not start alone" env -u QEMU_LD_PREFIX qemu-aarch64-static "$b/static/$f" --version
		check "$f in static/ is dynamic" sh -c "! readelf -d '$b/static/$f' | grep NEEDED"
	done
fi
# glibc of the board: a program that needs a newer symbol does not start there.
newest=2.36
[ "$libc" != bullseye ] || newest=2.31
if [ -n "$arch" ]; then
	for f in $files; do
		[ -e "$dir/$f" ] || continue
		readelf -V "$dir/$f" | grep -o 'GLIBC_2\.[0-9]*' | sort -u >"$dir/needs"
		check "$f needs symbols of a glibc above $newest" sh -c "! sed 's/GLIBC_2.//' '$dir/needs' | awk '\$1 > ${newest#2.} { print \"GLIBC_2.\" \$1 }' | grep ."
		check "$f needs no glibc at all, so that the check above says nothing" grep -q . "$dir/needs"
	done
	# The C++ library of such a board may be older, too.
	[ "$newest" = 2.36 ] || check "a program needs the board's C++ library" sh -c "! readelf -d $dir/hone* | grep 'NEEDED.*libstdc'"
fi
end
