#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs programs, units, libhone, its Python package, manual pages and completion. Usage: install.sh BUILD DESTDIR PREFIX VERSION SONAME FALLBACK.zst...
# STRIP: the strip of its programs. RUNS: another build of the same version, whose programs run here (BUILD may be of another board).
# hone looks for hone-worker beside itself, libhone.so for the kernels of better processors in the folder hone beside it.
set -e
case $3 in "" | /*) ;; *) echo "make install: PREFIX='$3' is no absolute path: write PREFIX=$PWD/$3" >&2; exit 1 ;; esac
b=$1 runs=${RUNS:-$1} dest=$2 root=$2$3 prefix=$3 version=$4 soname=$5
shift 5
if [ "$runs" != "$b" ] && [ -z "$dest" ]; then
	echo "make install: these programs are not for this machine: DESTDIR= says into which folder they go" >&2
	exit 1
fi
install -d "$root/bin" "$root/share/man/man1" "$root/share/man/man3" "$root/share/man/man5" "$root/share/man/man8" "$root/share/bash-completion/completions" \
	"$root/include" "$root/lib/pkgconfig" "$root/lib/hone" "$root/share/doc/hone/examples" "$root/share/hone/boards"
programs="hone honed hone-worker hone-sync"
[ ! -e "$b/hone-fleet" ] || programs="$programs hone-fleet" # boards are no servers
for p in $programs; do install -m 755 "$b/$p" "$root/bin"; done
install -m 755 tools/build/hone-image.sh "$root/lib/hone/hone-image"
sh tools/build/units.sh --install "$dest" "$prefix"
[ -e "$b/hone-fleet" ] || rm -f "$root/lib/systemd/system/hone-fleet.service"
install -m 644 "$b"/man/*.1 "$root/share/man/man1"
install -m 644 "$b"/man/*.5 "$root/share/man/man5"
install -m 644 "$b"/man/*.8 "$root/share/man/man8"
sed -i "s|/usr/local/|$prefix/|" "$root"/share/man/man8/hone*.8 # units have copies of the page
install -m 644 "$b"/man3/*.3 "$root/share/man/man3"
install -D -m 644 configs/grafana/hone.json "$root/share/doc/hone/grafana/hone.json"
install -D -m 644 configs/nginx/hone-fleet.conf "$root/share/doc/hone/nginx/hone-fleet.conf"
install -m 644 configs/boards/*.conf "$root/share/hone/boards"
for p in hone hone-fleet; do [ ! -e "$b/$p" ] || "$runs/$p" --bash-completion >"$root/share/bash-completion/completions/$p"; done
unset COLUMNS # a help is as wide as it says
for p in hone-sync honed; do
	help=$("$runs/$p" --help)
	echo "$help" | sh tools/build/complete.sh "$p" >"$root/share/bash-completion/completions/$p"
done
install -m 644 agent/run/hone.h agent/run/hone.hpp kernels/library/hone_backend.h "$root/include"
install -m 644 "$b/libhone.a" "$root/lib"
install -m 755 -s --strip-program="${STRIP:-strip}" "$b/libhone.so" "$root/lib/$soname"
install -m 755 -s --strip-program="${STRIP:-strip}" "$b/libhone-device.so" "$root/lib/hone"
rm -f "$root/lib/libhone-opencl.so" "$root/lib/libhone-device.so" # former names and places
ln -sf "$soname" "$root/lib/libhone.so"
install -m 644 "$@" "$root/lib/hone"
# The Python package: PYTHON_SITE, else the folder below the prefix where its python3 (or PYTHON) looks for packages. The
# package finds libhone.so relative to itself (tools/python/hone/_library.py). Other systems have another python3: PYTHON_SITE.
python=${PYTHON:-$prefix/bin/python3} site=${PYTHON_SITE-} seen=yes words=
command -v "$python" >/dev/null || python=python3
if [ -z "$site" ] && command -v "$python" >/dev/null; then
	site=$("$python" -I -c 'import site, sys
prefix, version = sys.argv[1].rstrip("/"), "%d.%d" % sys.version_info[:2]
known = [d for d in site.getsitepackages() if d.startswith(prefix + "/lib")]
print(known[0] if known else "%s/lib/python%s/site-packages" % (prefix, version))' "$prefix")
	seen=$("$python" -I -c 'import site, sys; print("yes" if sys.argv[1] in site.getsitepackages() + [site.getusersitepackages()] else "no")' "$site")
fi
case $site in
/*)
	install -d "$dest$site/hone"
	install -m 644 tools/python/hone/*.py tools/python/hone/*.pyi tools/python/hone/py.typed "$dest$site/hone"
	words=", the Python package in $dest$site"
	[ "$seen" = yes ] || words="$words ($(command -v "$python") does not look there: set PYTHONPATH=$site)" ;;
"") words="; without its Python package, because there is no python3: PYTHON_SITE=DIR says where it goes" ;;
*)
	echo "hone: error: PYTHON_SITE=$site is not an absolute path" >&2
	exit 1 ;;
esac
install -m 644 configs/examples/* "$root/share/doc/hone/examples"
cat >"$root/lib/pkgconfig/hone.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: hone
Description: runs neural networks with kernels tuned on the board that runs them
Version: $version
Cflags: -I"\${includedir}"
Libs: -L"\${libdir}" -lhone
Libs.private: -lprotobuf-c -lzstd -lpthread -lm -ldl
END
# So that programs find the library: a user who is not root, or who installs for another system, does it there.
if [ -z "$dest" ] && ! sh tools/build/units.sh --private "$dest" "$prefix" && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then
	ldconfig
fi
conf=
sh tools/build/units.sh --private "$dest" "$prefix" || [ ! -e "$dest/etc/hone/honed.conf" ] || conf="; and $dest/etc/hone/honed.conf"
echo "installed in $root: $(echo "$programs" | sed 's/ /, /g'), their units, libhone, manual pages (man hone, man hone_open), bash completion$words$conf"
