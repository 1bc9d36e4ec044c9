#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who includes and who links whom. Usage: layers.sh BUILD. A folder sees itself and those to its left.
b=$1 good=0 bad=0
order="platform kernels search agent tools tests"

check() { # description, list of offenders (empty: good)
	if [ -z "$2" ]; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "layers: $1:"
		echo "$2" | sed 's/^/	/'
	fi
}

right="$order"
for d in $order; do
	right=$(echo "$right" | sed "s/^$d *//" | tr ' ' '|')
	[ -n "$right" ] && check "$d includes a folder to its right" "$(grep -nE "^ *# *include *[\"<]($right)/" "$d"/*.[ch])"
	right=$(echo "$right" | tr '|' ' ')
done
check "more folders than the layers and configs" "$(ls -d */ | grep -vE "^(configs|build.*|$(echo $order | tr ' ' '|'))/$")"
check "mbedTLS or PSA is included elsewhere than in agent/crypto" "$(grep -nE '^ *# *include *[\"<](mbedtls|psa)/' */*.[ch] |
	grep -v '^agent/crypto_mbedtls.h:')"

llvm=$(nm "$b/hone" 2>&1 | grep -E ' _?_?(LLVM|ZN4llvm)|no such file|No such file' | head -3)
check "hone holds LLVM" "$llvm"
nm "$b/hone-worker" 2>/dev/null | grep -q ' LLVM'
check "hone-worker holds no LLVM" "$([ $? = 0 ] || echo "$b/hone-worker")"
check "hone, honed or libhone holds the worker's system-call filters" "$(nm "$b/hone" "$b/honed" "$b/libhone.so" 2>&1 | grep -E ' (seccomp|sandbox)_|o such file')"
foreign=$(nm "$b/libhone.so" 2>&1 | grep -E ' (LLVM|_ZN4llvm|hwloc|json_|search|strategy|job|tune|trials?|emit|loops|cost|local|worker|runner|wire)_[a-z_]*$| lower$|o such file')
check "libhone holds search, an emitter, a worker or a library that it must not" "$foreign"
check "libhone exports other names than agent/libhone.map says" "$(nm -D --defined-only "$b/libhone.so" 2>&1 |
	sed 's/.* //; s/@.*//' | grep -vE '^HONE_0$' | sort | { sed -n 's/^\t\t\(hone.*\)/\1/p' agent/libhone.map | tr -d ' \n' |
		tr ';' '\n' | sort >"$b/exports"; diff - "$b/exports"; })"
check "honed holds search, an emitter, a worker or a library that it must not" "$(nm "$b/honed" 2>&1 |
	grep -E ' [TDRB] (LLVM|_ZN4llvm|hwloc|search|strategy|tune|emit|loops|cost|local|runner|wire|graph|space|plan|image)_?[a-z_]*$|o such file')"
check "hone-sync holds search, an emitter or a worker" "$(nm "$b/hone-sync" 2>&1 |
	grep -E ' [TDRB] (LLVM|_ZN4llvm|hwloc|strategy|tune|emit|loops|cost|local|runner|wire)_?[a-z_]*$|o such file')"
check "honed links other libraries than libuv, inih, jansson and libc's" "$(readelf -d "$b/honed" 2>&1 |
	sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p; /rror/p' | grep -vE '^lib(uv|inih|jansson|c|m|pthread|asan|ubsan|tsan|gcc_s)\.so')"
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
