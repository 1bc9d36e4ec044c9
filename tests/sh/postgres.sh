#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A private PostgreSQL in FOLDER, in the foreground, on a socket there alone; it ends when it is told to, or with who started it.
#	postgres.sh FOLDER [OPTION...]		postgresql:///postgres?host=FOLDER&user=hone; options are postgres's own
# The cluster is made at the first start. 77: not installed. As root it runs as the user postgres, to whom FOLDER goes.
dir=$1
shift
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "${bin:-/nowhere}/postgres" ] && command -v setpriv >/dev/null || exit 77
as='setpriv --pdeathsig INT'
if [ "$(id -u)" = 0 ]; then
	id postgres >/dev/null 2>&1 || exit 77
	chown postgres: "$dir" && chmod 700 "$dir" || exit 1
	as="$as --reuid postgres --regid postgres --clear-groups"
fi
cd "$dir" || exit 1
[ -e data/PG_VERSION ] || $as "$bin/initdb" -N -U hone -E UTF8 --no-locale -A trust -D data >initdb.log 2>&1 || exit 1
exec $as "$bin/postgres" -D data -k "$dir" -c listen_addresses= "$@" >>log 2>&1
