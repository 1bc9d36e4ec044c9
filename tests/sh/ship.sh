#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is shipped beside Debian packages: ship.sh BUILD. The wheel installs by pip where its tag fits and nowhere else, and needs nothing of hone;
# the list of files and libraries (SPDX) is complete, and a mistake in it is found; tarballs for boards that were made (make tarball BOARD=) are whole.
# Skips what BUILD does not have (make wheel sbom).
build=$1 good=0 bad=0 skipped=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
check() { # what, command...
	what=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "ship: not so: $what"
		tail -n 8 "$dir/said" | sed 's/^/	/'
	fi
}
skip() {
	echo "skip: $1"
	skipped=$((skipped + 1))
}
fails() { # words that it says, command...
	words=$1
	shift
	! "$@" >"$dir/failed" 2>&1 && cat "$dir/failed" && grep -qE "$words" "$dir/failed"
}

# ---- the wheel ----
pip() { "$dir/venv/bin/python" -m pip -q --disable-pip-version-check "$@"; }
example() { # a model, by the library of the wheel
	cat >"$dir/example.py" <<'END'
import os, sys
import hone
from hone import _library
assert _library.lib._name.startswith(sys.prefix), _library.lib._name
with hone.load(sys.argv[1]) as model:
    print(model, model(bytes(model.inputs[0][3])))
END
	env -u HONE_LIBRARY -u PYTHONPATH HOME="$dir" "$dir/venv/bin/python" "$dir/example.py" "$dir/net.onnx"
}
recorded() { # the files' hashes are those of RECORD
	python3 - "$1" <<'END'
import base64, hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    record = next(n for n in z.namelist() if n.endswith("/RECORD"))
    lines = [l.rsplit(",", 2) for l in z.read(record).decode().splitlines()]
    assert sorted(l[0] for l in lines) == sorted(z.namelist()), "other files than in RECORD"
    for name, digest, size in lines:
        data = z.read(name)
        assert name == record or (digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data)), name
    assert [n for n in z.namelist() if "/licenses/LICENSE" in n], "no licence"
END
}
# The libraries inside are of the tag's architecture, need the C library alone, and none newer than the tag says.
contents() { # wheel
	rm -rf "$dir/unpacked"
	python3 -m zipfile -e "$1" "$dir/unpacked" || return
	case $1 in *_x86_64.whl) machine='X86-64' ;; *_aarch64.whl) machine=AArch64 ;; *_armv7l.whl) machine=ARM ;; *) return 1 ;; esac
	glibc=$(basename "$1" | sed 's/.*-manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/')
	for l in "$dir"/unpacked/hone/*.so* "$dir"/unpacked/hone/hone/*.so; do
		readelf -h "$l" | grep -q "Machine:.*$machine" || { echo "$l is not of $machine"; return 1; }
		! readelf -d "$l" | grep NEEDED | grep -vE '\[(lib(c|m|dl|rt|pthread)|ld-linux[^]]*)\.so' || return
		newest=$({ readelf -V "$l" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//'; echo "$glibc"; } | sort -uV | tail -1)
		[ "$newest" = "$glibc" ] || { echo "$l needs glibc $newest, the tag says $glibc"; return 1; }
	done
}
wheel=$(ls "$build"/hone-*-manylinux_*_"$(uname -m)".whl 2>/dev/null | head -1)
for w in "$build"/hone-*.whl build-generic-*/hone-*.whl; do
	[ ! -e "$w" ] || check "RECORD of $(basename "$w")" recorded "$w"
	[ ! -e "$w" ] || check "libraries of $(basename "$w")" contents "$w"
done
if [ -z "$wheel" ]; then
	skip "no wheel (make wheel)"
elif ! python3 -m venv "$dir/venv" >"$dir/said" 2>&1; then
	skip "no venv for python3 (apt-get install python3-venv)"
else
	"$build/hone" zoo -q steering -o "$dir/net.onnx" >/dev/null
	stem=${wheel##*/} && stem=${stem%%-manylinux*}
	for tag in manylinux_2_17_s390x manylinux_2_99_"$(uname -m)"; do
		cp "$wheel" "$dir/$stem-$tag.whl"
		check "pip refuses a wheel for $tag" fails "not a supported wheel" pip install --no-index "$dir/$stem-$tag.whl"
	done
	check "pip installs the wheel" pip install --no-index "$wheel"
	check "a network runs by its library" example
	check "pip uninstalls it" pip uninstall -y hone
	check "nothing of it stays" sh -c "! find '$dir/venv/lib' -name 'hone*' | grep ."
	check "the control: without it there is no hone" fails "No module named 'hone'" example
fi

# ---- SPDX ----
tells() { python3 -B tools/build/sbom.py --check "$@"; }
list=$(ls "$build"/hone-*.spdx.json 2>/dev/null | head -1)
if [ -z "$list" ] || [ ! -d "$build/sbom" ]; then
	skip "no list of files and libraries (make sbom)"
else
	check "the list has every file and library" tells "$list" "$build/sbom"
	cp -r "$build/sbom" "$dir/tree"
	echo >"$dir/tree/usr/more"
	check "a file that it lacks is found" fails "usr/more: not in the list" tells "$list" "$dir/tree"
	rm "$dir/tree/usr/more"
	echo >>"$dir/tree/usr/include/hone.h"
	check "a file that changed is found" fails "hone.h: another file" tells "$list" "$dir/tree"
	rm "$dir/tree/usr/include/hone.h"
	check "a file that went is found" fails "hone.h: in the list, and not there" tells "$list" "$dir/tree"
	sed 's/"comment":"libuv.so.1"/"comment":"none"/' "$list" >"$dir/list"
	check "a library that it lacks is found" fails "honed: its library libuv.so.1 is not" tells "$dir/list" "$build/sbom"
	sed 's/STATIC_LINK/CONTAINS/' "$list" >"$dir/list"
	check "LLVM that it lacks is found" fails "LLVM of hone-worker" tells "$dir/list" "$build/sbom"
fi

# ---- tarballs ----
whole() { # tarball: programs, what they need, licences, and nothing outside of /usr/local
	rm -rf "$dir/board" && mkdir "$dir/board" && tar -C "$dir/board" -xzf "$1" || return
	r=$dir/board/usr/local
	[ "$(cd "$dir/board" && find . -type f ! -path './usr/local/*')" = "" ] || { find "$dir/board" -type f ! -path "$r/*"; return 1; }
	for f in $(cd "$r" && find bin lib -type f); do
		! readelf -h "$r/$f" >/dev/null 2>&1 || grep -q "^$f: " "$r/share/doc/hone/NEEDS" || { echo "NEEDS has no $f"; return 1; }
		case $1:$f in *-static.tar.gz:bin/hone-sync) ;; *-static.tar.gz:bin/*) ! readelf -d "$r/$f" | grep NEEDED || return ;; esac
	done
	[ -x "$r/bin/hone" ] && [ -x "$r/bin/hone-worker" ] && [ -s "$r/lib/libhone.so.1" ] && [ -s "$r/share/doc/hone/LICENSE" ] && [ "$(ls "$r/share/doc/hone/licenses" | wc -l)" -gt 0 ] &&
		[ -s "$r/lib/systemd/system/honed.service" ] && [ -s "$r/share/doc/hone/examples/honed.conf" ] && [ -s "$r/share/hone/boards/rpi4.conf" ]
}
ran() { # emulator
	"$1" "$dir/board/usr/local/bin/hone" --version && HOME=$dir "$1" "$dir/board/usr/local/bin/hone" zoo steering -o "$dir/board.onnx"
}
found=
for t in build-*/hone-*-static.tar.gz build-*/hone-*-dynamic.tar.gz; do
	[ -e "$t" ] || continue
	found=yes
	check "$(basename "$t") is whole" whole "$t"
	case $t in *-static.tar.gz) ;; *) continue ;; esac
	emulator=qemu-aarch64-static
	! readelf -h "$dir/board/usr/local/bin/hone" | grep -q 'Class:.*ELF32' || emulator=qemu-arm-static
	! command -v $emulator >/dev/null || check "programs of $(basename "$t") run" ran $emulator
done
[ -n "$found" ] || skip "no tarball (make tarball BOARD=generic-arm64)"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
