#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package hone-seed-NAME of a pack (hone pack): seed-deb.sh BUILD VERSION PACK.seg NAME [MAINTAINER]. It puts the pack
# into /usr/share/hone/cache, below the board's own cache, and has no scripts: installing and removing it leaves that cache alone.
# Its version is VERSION, with the day of SOURCE_DATE_EPOCH (default: the pack file's time). The same pack with the same
# SOURCE_DATE_EPOCH gives the same package; a copy of the pack with another time gives another one without it.
set -e
build=$1 version=$2 pack=$3 name=$4 maintainer=${5:-hone maintainers <maintainers@hone.invalid>}
die() {
	echo "make: seed-deb: $*" >&2
	exit 1
}
[ -n "$pack" ] && [ -n "$name" ] || die "PACK=FILE.seg NAME=WORD say which pack (hone pack makes one), and what the package is called: hone-seed-WORD"
case $name in [!a-z0-9]* | *[!a-z0-9.+-]*) die "NAME=$name: lower-case letters, digits, '.', '+' and '-'" ;; esac
# Two packs in one file's place: hone-image.sh writes image.seg there, and the hooks of Yocto, Buildroot, pi-gen and Jetson seed.seg.
case $name in image | seed) die "NAME=$name: an image's own pack has the file name $name.seg; choose another name" ;; esac
case $maintainer in *" <"*@*">") ;; *) die "MAINTAINER=$maintainer: write MAINTAINER='Name <name@example.org>'" ;; esac
command -v dpkg-deb >/dev/null || die "no dpkg-deb: apt-get install dpkg"
[ -f "$pack" ] || die "$pack is not a file"
dir=$(mktemp -d "$build/seed-XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
# hone reads the pack as it reads a seed, and says for which boards it is.
mkdir "$dir/seeds"
cp "$pack" "$dir/seeds/pack.seg"
"$build/hone" pack --cache "$dir/seeds" -o "$dir/again.seg" --json >"$dir/about" 2>"$dir/said" || die "$pack: $(sed -n 's/^hone: error: //p' "$dir/said")"
about() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^,\"}]*\).*/\1/p" "$dir/about" | head -n 1; }
class=$(about class)
[ "$(about records)" -gt 0 ] || die "$pack has no records: it is empty, or no pack of hone"
case $class in any) boards="several classes of boards" ;; *) boards="boards of class $class" ;; esac

epoch=${SOURCE_DATE_EPOCH:-$(stat -L -c %Y "$pack")}
export SOURCE_DATE_EPOCH="$epoch"
version=$version+$(date -u -d "@$epoch" +%Y%m%d)
root=$dir/root
install -d "$root/DEBIAN" "$root/usr/share/hone/cache" "$root/usr/share/doc/hone-seed-$name"
install -m 644 "$pack" "$root/usr/share/hone/cache/$name.seg"
printf 'hone-seed-%s (%s) unstable; urgency=medium\n\n  * Tuned kernels, from a pack of hone.\n\n -- %s  %s\n' "$name" "$version" "$maintainer" "$(LC_ALL=C date -u -R -d "@$epoch")" |
	gzip -9n >"$root/usr/share/doc/hone-seed-$name/changelog.gz"
cat >"$root/usr/share/doc/hone-seed-$name/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: $(date -u -d "@$epoch" +%Y) $maintainer
License: Apache-2.0
 On Debian systems, the full text of the Apache License version 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
END
cat >"$root/DEBIAN/control" <<END
Package: hone-seed-$name
Version: $version
Architecture: all
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$root/usr" | cut -f 1)
Enhances: honed, libhone1
Section: misc
Priority: optional
Description: tuned neural-network kernels for $name
 A seed pack of hone: records of which kernels are fast for
 $boards.
 .
 hone, honed and libhone use it below what the board itself has found, from
 their next start on. Boards of other classes ignore it.
END
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f -exec chmod 644 {} +
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@$epoch" {} +
out=$build/hone-seed-${name}_${version}_all.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$out" >/dev/null
echo "$out: for $boards, $(about records) entries"
