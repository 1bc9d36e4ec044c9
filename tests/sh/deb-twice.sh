#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of the last commit twice, and compares them byte by byte: deb-twice.sh BUILD [BOARD SYSROOT]. BOARD:
# generic-arm64 or generic-armhf, with the folder that `make sysroot` made. The two builds differ in folder, umask, time zone,
# locale, home folder and number of jobs. The packages of the first stay in BUILD/deb-twice, or BUILD/deb-twice-BOARD.
board=$2 made=build${2:+-$2}/deb
mkdir -p "$1/deb-twice${board:+-$board}" && top=$(realpath "$1/deb-twice${board:+-$board}") good=0 bad=0 || exit
if [ -n "$board" ]; then
	sysroot=$(realpath "$3") || exit
fi
if ! git rev-parse --git-dir >/dev/null 2>&1 || ! command -v dh >/dev/null; then
	echo "skip: packages built twice: no clone of git, or no debhelper (apt-get install debhelper)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
unset MAKEFLAGS MFLAGS MAKELEVEL SOURCE_DATE_EPOCH
jobs=$(nproc)
build() { # folder, umask, variables...
	folder=$1 mask=$2
	shift 2
	(umask "$mask" && git clone -q . "$folder" && cd "$folder" && env "$@" make deb ${board:+BOARD="$board" SYSROOT="$sysroot"} >"$folder.log" 2>&1) && return
	echo "deb-twice: make deb failed in $folder:"
	tail -n 5 "$folder.log"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}
rm -rf "${top:?}"/* && mkdir "${top:?}/home"
build "$top/one" 022 TZ=UTC LC_ALL=C DEB_BUILD_OPTIONS="parallel=$jobs"
mv "$top/one/$made" "$top/packages" && rm -rf "$top/one"
build "$top/another-folder" 077 TZ=Asia/Kolkata LC_ALL=C.UTF-8 HOME="$top/home" DEB_BUILD_OPTIONS="parallel=$((jobs + 1))"
for f in "$top"/packages/*.deb "$top"/packages/*.tar.xz; do # buildinfo, changes and dsc say how and when it was built
	if cmp "$f" "$top/another-folder/$made/${f##*/}"; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
	fi
done
rm -rf "${top:?}/another-folder" "${top:?}/home"
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
