#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks which folder includes and links which, and the rules for headers. Usage: layers.sh BUILD
b=$1 good=0 bad=0
# The folders in order: each may include and call itself and those before it; tests/ may use all.
order="platform/base platform/machine platform/run
	kernels/task kernels/space kernels/loops kernels/emit kernels/library kernels/graph kernels/qdq kernels/group kernels/onnx search
	agent/cache agent/control agent/run agent/quantize agent/calibrate agent/bundle agent/sync agent/worker agent/tune agent/honed
	tools/hone tools/fleet tools/bench"

check() { # description, list of offenders (empty: good)
	if [ -z "$2" ]; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "layers: $1:"
		echo "$2" | sed 's/^/	/'
	fi
}

sources=$(for d in $order; do ls "$d"/*.[ch]; done)
headers=$(echo "$sources" | grep '\.h$'; ls tests/lib/*.h)
ranks='BEGIN { n = split(order, list); for (i = 1; i <= n; i++) rank[list[i]] = i }
	function folder(path) { sub("/[^/]*$", "", path); return path }'

# shellcheck disable=SC2086
check "a file includes what lies in a later folder" "$(awk -v order="$order" "$ranks"'
	/^ *# *include *"/ { split($0, part, "\""); if (rank[folder(part[2])] > rank[folder(FILENAME)] || part[2] ~ /^tests/)
		print FILENAME ":" FNR ": " part[2] }' $sources)"
check "a folder calls what lies in a later one" "$(for d in $order; do nm -g "$b/$d.a" 2>/dev/null | sed "s|^|$d |"; done |
	awk -v order="$order" "$ranks"'
	NF == 4 && $3 ~ /[TDRBV]/ && !($4 in home) { home[$4] = $1 }
	NF == 3 && $2 == "U" { uses[$1 " " $3] }
	END { for (u in uses) { split(u, part); if (rank[home[part[2]]] > rank[part[1]]) print part[1] " calls " part[2] " of " home[part[2]] } }')"
check "an archive of a folder is missing: make layers builds it" "$(for d in $order; do [ -s "$b/$d.a" ] || echo "$b/$d.a"; done)"
# shellcheck disable=SC2086
check "a name of a struct, union or enum has two meanings" "$(grep -HoE '^(struct|union|enum) [a-z_0-9]+ \{' $headers |
	sed 's/\([^:]*\):[a-z]* \([a-z_0-9]*\) {/\2 \1/' | sort -u | awk '$1 == last { print $1 ": " file ", " $2 } { last = $1; file = $2 }')"
# shellcheck disable=SC2086
check "a header has lines of more than 110 columns" "$(for h in $headers; do expand "$h" | LC_ALL=C.UTF-8 grep -nE '.{111}' | sed "s|^|$h:|"; done)"
check "there are other folders than those of the order" "$(ls -d */ platform/*/ kernels/*/ agent/*/ tools/*/ | sed 's|/$||' |
	grep -vE '^(build.*|configs|tests|platform|kernels|agent|tools|tools/(build|peers|python))$' |
	grep -vxF "$(echo "$order" | tr -s '[:space:]' '\n')")"
check "mbedTLS or PSA is included elsewhere than in agent/sync/crypto" "$(grep -nE '^ *# *include *[\"<](mbedtls|psa)/' */*/*.[ch] tests/*/*/*.[ch] |
	grep -v '^agent/sync/crypto_mbedtls.h:')"

llvm=$(nm "$b/hone" 2>&1 | grep -E ' _?_?(LLVM|ZN4llvm)|no such file|No such file' | head -3)
check "hone holds LLVM" "$llvm"
nm "$b/hone-worker" 2>/dev/null | grep -q ' LLVM'
check "hone-worker holds no LLVM" "$([ $? = 0 ] || echo "$b/hone-worker")"
check "hone, honed or libhone holds the worker's system-call filters" "$(nm "$b/hone" "$b/honed" "$b/libhone.so" 2>&1 | grep -E ' (seccomp|sandbox)_|o such file')"
foreign=$(nm "$b/libhone.so" 2>&1 | grep -E ' (LLVM|_ZN4llvm|hwloc|json_|search|strategy|job|tune|trials?|emit|loops|cost|local|worker|runner|wire)_[a-z_]*$| lower$|o such file')
check "libhone holds search, an emitter, a worker or a library that it must not" "$foreign"
check "libhone exports other names than agent/run/libhone.map says" "$(nm -D --defined-only "$b/libhone.so" 2>&1 |
	sed 's/.* //; s/@.*//' | grep -vE '^HONE_0$' | sort | { sed -n 's/^\t\t\(hone.*\)/\1/p' agent/run/libhone.map | tr -d ' \n' |
		tr ';' '\n' | sort >"$b/exports"; diff - "$b/exports"; })"
inline=" t loops_for$" # a sanitizer keeps it, though it is static and inline in loops.h
check "honed holds search, an emitter, a worker or a library that it must not" "$(nm "$b/honed" 2>&1 |
	grep -E ' [TtDdRrBb] (LLVM|_ZN4llvm|hwloc|search|strategy|tune|emit|loops|cost|local|runner|wire|graph|space|plan|image)_?[a-z_]*$|o such file' |
	grep -v "$inline")"
check "hone-sync holds search, an emitter or a worker" "$(nm "$b/hone-sync" 2>&1 |
	grep -E ' [TtDdRrBb] (LLVM|_ZN4llvm|hwloc|strategy|tune|emit|loops|cost|local|runner|wire)_?[a-z_]*$|o such file' | grep -v "$inline")"
check "honed links other libraries than libuv, inih, jansson and libc's" "$(readelf -d "$b/honed" 2>&1 |
	sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p; /rror/p' | grep -vE '^(lib(uv|inih|jansson|c|m|pthread|asan|ubsan|tsan|gcc_s)|ld-linux.*)\.so')"
check "honed or libhone holds a part of OpenCL or CUDA" "$(nm "$b/honed" "$b/libhone.so" 2>&1 | grep -E ' [TtDdRrBb] (emit_)?(opencl|cuda)_?|o such file')"
check "a program links a driver" "$(for p in hone hone-worker honed hone-sync hone-fleet libhone.so; do readelf -d "$b/$p" 2>&1 |
	sed -n "s/.*NEEDED.*\[\(lib.*\(OpenCL\|pocl\|cuda\|nvidia\).*\)\]/$p: \1/p; /rror/p"; done)"
check "hone alone links libpng and libjpeg" "$(for p in hone-worker honed hone-sync hone-fleet libhone.so; do readelf -d "$b/$p" 2>&1 |
	sed -n "s/.*NEEDED.*\[\(lib\(png\|jpeg\).*\)\]/$p: \1/p; /rror/p"; done; readelf -d "$b/hone" | grep -q 'NEEDED.*libpng' || echo "hone: no libpng")"
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
