#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the Debian package of a pack that tools/build/seed-deb.sh makes: seeds.sh BUILD.
build=$(realpath "$1") good=0 bad=0 skipped=0
if ! command -v dpkg-deb >/dev/null; then
	echo "skip: packages of packs: no dpkg-deb on PATH"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
dir=$(mktemp -d "$build/seed-test-XXXXXX") || exit 1
made=
trap 'rm -rf "$dir" $made' EXIT
trap 'exit 1' INT TERM HUP
export HONE_WORKER="$build/hone-worker" XDG_CACHE_HOME="$dir/home" HONE_SOCKET=/dev/null/none HONE_SEEDS=
check() { # what, command...
	what=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "seed-deb: not so: $what"
		tail -n 5 "$dir/said" | sed 's/^/	/'
	fi
}
fails() { ! "$@"; }
make_deb() { # pack, name, maintainer
	said=$(sh tools/build/seed-deb.sh "$build" 1.0 "$@" 2>&1) || { echo "$said"; return 1; }
	deb=${said%%:*} made="$made ${said%%:*}"
}
# A root of dpkg's own. The package has no scripts, so nothing runs in it.
dpkg_there() { dpkg --root="$dir/root" --force-not-root --log=/dev/null "$@"; }
tuned() { # how many kernels of the model are tuned, by the packs of the root
	HONE_SEEDS="$dir/root/usr/share/hone/cache" "$build/hone" show --json --cache "$dir/none" >"$dir/show" 2>&1
	grep -o '"record_kind": *"best"' "$dir/show" | wc -l
}
kinds_are() { # which kernels the model has by the packs of the root
	HONE_SEEDS="$dir/root/usr/share/hone/cache" "$build/hone" bench "$dir/m.onnx" --runs 2 --threads 1 --cache "$dir/none" --json 2>/dev/null | grep -o '"kernel_kind": *"[a-z]*"' >"$dir/kinds"
	[ -s "$dir/kinds" ] && ! grep -v "$1" "$dir/kinds"
}
"$build/tests/boots" net 3 "$dir/m.onnx" "$dir/x.npy" &&
	"$build/hone" tune "$dir/m.onnx" --budget 3s --rigor estimate --threads 1 --cache "$dir/tuned" -q >/dev/null 2>&1 &&
	"$build/hone" pack --cache "$dir/tuned" -o "$dir/a.seg" -q >/dev/null || exit 1
export SOURCE_DATE_EPOCH=1700000000
mkdir -p "$dir/none" "$dir/root/var/lib/dpkg/info" "$dir/root/var/lib/dpkg/updates" "$dir/root/var/lib/hone/cache"
: >"$dir/root/var/lib/dpkg/status"
: >"$dir/root/var/lib/dpkg/available"
cp "$dir"/tuned/*.seg "$dir/root/var/lib/hone/cache"
(cd "$dir/root/var/lib/hone/cache" && cksum ./*) >"$dir/own"
own_cache_is_same() { (cd "$dir/root/var/lib/hone/cache" && cksum ./*) | cmp - "$dir/own"; }

check "a package is made" make_deb "$dir/a.seg" robot-arm
make_deb "$dir/a.seg" robot-arm
check "its version has the day" [ "$(dpkg-deb -f "$deb" Version)" = 1.0+20231114 ]
check "for all architectures" [ "$(dpkg-deb -f "$deb" Architecture)" = all ]
class=$("$build/hone" pack --cache "$dir/tuned" -o "$dir/b.seg" --json 2>/dev/null | sed -n 's/.*"class": *"\([0-9a-f]*\)".*/\1/p')
check "its description names the class" sh -c "dpkg-deb -f '$deb' Description | grep -q 'class $class'"
cp "$deb" "$dir/first.deb"
touch "$dir/a.seg"
make_deb "$dir/a.seg" robot-arm
check "the same pack gives the same package at the same SOURCE_DATE_EPOCH" cmp "$deb" "$dir/first.deb"
check "a folder is root's" sh -c "dpkg-deb -c '$deb' | grep -q '^drwxr-xr-x root/root .*/usr/share/hone/cache/'"
if command -v lintian >/dev/null; then
	check "lintian has no words" sh -c "lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs '$deb' && [ -z \"\$(lintian --allow-root '$deb' 2>/dev/null)\" ]"
else
	echo "skip: seed-deb: no lintian (apt-get install lintian)"
	skipped=1
fi
check "no records without it" [ "$(tuned)" = 0 ]
check "it installs" dpkg_there -i "$deb"
check "its records are there" [ "$(tuned)" -gt 0 ]
check "it installs again" dpkg_there -i "$deb"
SOURCE_DATE_EPOCH=1800000000
make_deb "$dir/a.seg" robot-arm
check "a later one is an upgrade" dpkg_there -i "$deb"
make_deb "$dir/a.seg" other
check "another pack beside it" dpkg_there -i "$deb"
check "two packs are there" [ "$(ls "$dir/root/usr/share/hone/cache" | wc -l)" = 2 ]
check "they are removed" dpkg_there -P hone-seed-robot-arm hone-seed-other
check "no pack is left" [ ! -e "$dir/root/usr/share/hone/cache/robot-arm.seg" ]
check "no folder is left" [ ! -e "$dir/root/usr/share/hone" ]
check "the board's own cache is as it was" own_cache_is_same
# Boards of another class do not use it, and hone show says so.
if [ "$(uname -m)" = x86_64 ]; then
	(HONE_ISA=x86-64-v2 && export HONE_ISA && "$build/hone" tune "$dir/m.onnx" --budget 3s --rigor estimate --threads 1 --cache "$dir/old" -q &&
		"$build/hone" pack --cache "$dir/old" -o "$dir/old.seg" -q) >/dev/null 2>&1
	make_deb "$dir/old.seg" old
	check "a pack of another class installs" dpkg_there -i "$deb"
	check "its records are shown as another machine's" sh -c "HONE_SEEDS='$dir/root/usr/share/hone/cache' '$build/hone' show --cache '$dir/none' | grep -q ' machine '"
	check "they are not used" kinds_are "fallback\|portable"
	export HONE_ISA=x86-64-v2
	check "but on a board of that class they are" fails kinds_are "fallback\|portable"
	unset HONE_ISA
fi
echo text >"$dir/text.seg"
check "a file that is no pack is refused" fails make_deb "$dir/text.seg" a
check "a name with a blank is refused" fails make_deb "$dir/a.seg" "A b"
for name in image seed; do check "the name $name, whose file other tools write, is refused" fails make_deb "$dir/a.seg" $name; done
check "a missing name is refused" fails make_deb "$dir/a.seg" ""
check "a missing file is refused" fails make_deb "$dir/none.seg" a
check "a maintainer without an address is refused" fails make_deb "$dir/a.seg" a someone
check "a pack for another class is refused where it is made" fails "$build/hone" pack --cache "$dir/tuned" -o "$dir/c.seg" --class 0123456789abcdef0123456789abcdef
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
