#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a private PostgreSQL in FOLDER, in the foreground, on a socket there only; it ends on a signal, or with its parent.
#	postgres.sh FOLDER [OPTION...]		postgresql:///postgres?host=FOLDER&user=hone; options go to postgres
# The first start makes the cluster. Exit status 77: not installed. As root it runs as the user postgres, who then owns FOLDER.
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
