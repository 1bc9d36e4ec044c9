#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs programs, manual pages and completion. Usage: install.sh BUILD ROOT. hone looks for hone-worker beside itself.
set -e
b=$1 root=$2
install -d "$root/bin" "$root/share/man/man1" "$root/share/bash-completion/completions"
install -m 755 "$b/hone" "$b/hone-worker" "$root/bin"
install -m 644 "$b"/man/*.1 "$root/share/man/man1"
"$b/hone" --bash-completion > "$root/share/bash-completion/completions/hone"
echo "installed in $root: hone, hone-worker, manual pages (man hone), bash completion"
