#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles agent/sync/crypto.c, with warnings as errors, against each installed mbedTLS, and runs its tests with that library.
# MBEDTLS_DIRS: folders with include/ and lib/ or usr/, as cmake --install or dpkg -x of libmbedtls-dev, libmbedcrypto and
# libmbedx509 leave them. It always checks the system's own. A version without a library is only compiled, and it says so.
b=${BUILD:-build} bad=0
flags="-std=c11 -O2 -g -D_GNU_SOURCE -I. -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wno-missing-field-initializers -Werror"
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || exit 1
make -s B="$b" "$b/platform/run.a" "$b/platform/machine.a" "$b/platform/base.a" || exit 1

# lib_of DIR NAME...: the first shared library of one of those names; crypto has two since 4.0.
lib_of() {
	dir=$1
	shift
	for n in "$@"; do
		find "$dir" -name "lib$n.so" 2>/dev/null | head -n 1
	done | head -n 1
}

check() { # check DIR: with include/ in it
	version=$(echo MBEDTLS_VERSION_STRING | ${CC:-cc} -I"$1/include" -include mbedtls/version.h -E -P - | tail -n 1 | tr -d '"')
	for cc in ${CC:-gcc clang}; do
		command -v "$cc" >/dev/null || continue
		"$cc" $flags -I"$1/include" -c -o "$out/crypto.o" agent/sync/crypto.c || return 1
	done
	x509=$(lib_of "$1" mbedx509) crypto=$(lib_of "$1" mbedcrypto tfpsacrypto)
	if [ -z "$x509" ] || [ -z "$crypto" ]; then
		echo "mbedTLS $version in $1: compiles; no library there to run the tests with"
		return 0
	fi
	cc -o "$out/test" -I"$1/include" $flags tests/agent/sync/test_crypto.c "$out/crypto.o" "$b/platform/run.a" "$b/platform/machine.a" "$b/platform/base.a" "$x509" "$crypto" \
		-Wl,-rpath,"$(dirname "$x509")" -lpthread -lm || return 1
	"$out/test" >"$out/log" || {
		tail -n 20 "$out/log"
		return 1
	}
	echo "mbedTLS $version in $1: compiles; test_crypto: $(tail -n 1 "$out/log")"
}

for d in /usr $MBEDTLS_DIRS; do
	[ -d "$d/include/mbedtls" ] || d=$d/usr
	[ -d "$d/include/mbedtls" ] || { echo "no mbedtls/ in ${d%/usr}/include"; bad=1; continue; }
	check "$d" || { echo "mbedTLS in $d: FAILED"; bad=1; }
done
exit $bad
