#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Removes what install.sh, given the same words, wrote: uninstall.sh BUILD DESTDIR PREFIX VERSION SONAME FALLBACK.zst...
# It installs into a folder of its own to learn what that is. A file below /etc that was edited stays, and so does a folder that
# holds other files. Without DESTDIR, PREFIX/bin and the like stay, too.
set -e
dest=$2 prefix=$3
case $prefix in "" | /*) ;; *) echo "make uninstall: PREFIX='$prefix' is no absolute path: write PREFIX=$PWD/$prefix" >&2; exit 1 ;; esac
stage=$(mktemp -d)
trap 'rm -rf "$stage" "$stage.list"' EXIT
here=$(realpath "$(dirname "$0")") b=$1
shift 3
sh "$here/install.sh" "$b" "$stage" "$prefix" "$@" >/dev/null
private=no # a user's own folder, outside of which nothing was written
! sh "$here/units.sh" --private "$dest" "$prefix" || private=yes
[ $private = no ] || rm -rf "$stage/etc"
gone=0 stays=
(cd "$stage" && find . ! -type d | sed 's/^\.//') >"$stage.list"
while IFS= read -r file; do
	[ -e "$dest$file" ] || [ -L "$dest$file" ] || continue
	case $file in
	/etc/*) cmp -s "$stage$file" "$dest$file" || { stays="$stays; $dest$file stays, because it was edited"; continue; } ;;
	esac
	rm -f "$dest$file"
	case $file in *.py) # Python wrote its own form beside it
		name=$(basename "$file" .py) folder=$dest$(dirname "$file")/__pycache__
		rm -f "$folder/$name".*.pyc
		rmdir "$folder" 2>/dev/null || true ;;
	esac
	gone=$((gone + 1))
done <"$stage.list"
(cd "$stage" && find . -depth -mindepth 1 -type d) | sed 's/^\.//' | while IFS= read -r folder; do
	case ${folder#"$prefix"} in
	/bin | /lib | /share | /include | /etc | "") [ -n "$dest" ] || continue ;;
	esac
	case $prefix in "$folder" | "$folder"/*) [ -n "$dest" ] || continue ;; esac
	rmdir "$dest$folder" 2>/dev/null || true
done
if [ -z "$dest" ] && [ $private = no ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
	ldconfig
fi
[ "$gone" -gt 0 ] || { echo "make uninstall: nothing of hone is in $dest$prefix: give the PREFIX and DESTDIR of make install" >&2; exit 0; }
echo "removed $gone files of hone from $dest$prefix$stays"
