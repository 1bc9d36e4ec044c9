#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes what the programs are made of as SPDX 2.3 (JSON): sbom.sh BUILD VERSION LLVM_VERSION > FILE. It names the programs with their
# hashes, the Debian packages whose libraries they load, and LLVM, which hone-worker has inside.
set -e
b=$1 version=$2 llvm=$3
made="hone honed hone-worker hone-sync hone-fleet libhone.so libhone-device.so"
for f in $made; do
	[ -e "$b/$f" ] || { echo "hone: error: no $b/$f: make builds it (for another board's programs there is no such list)" >&2; exit 1; }
done
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)

id() { printf '%s' "$1" | tr -c 'A-Za-z0-9.' -; }

package() { # ID NAME VERSION LICENSE [PURL]
	[ -z "$5" ] || purl=',"externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"'$5'"}]'
	printf '{"SPDXID":"SPDXRef-%s","name":"%s","versionInfo":"%s","downloadLocation":"NOASSERTION",%s,"licenseConcluded":"NOASSERTION","licenseDeclared":"%s","copyrightText":"NOASSERTION"%s}' \
		"$1" "$2" "$3" "${code:-"\"filesAnalyzed\":false"}" "$4" "${5:+$purl}"
}

relation() { printf '{"spdxElementId":"SPDXRef-%s","relationshipType":"%s","relatedSpdxElement":"SPDXRef-%s"}' "$1" "$2" "$3"; }

# The Debian package of a library that a program loads.
owner() { # path
	dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "$(realpath "$1")" 2>/dev/null || dpkg-query -S "/usr$1"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
relation DOCUMENT DESCRIBES hone >"$tmp/relations"
: >"$tmp/files"
for f in $made; do
	printf '%s{"SPDXID":"SPDXRef-file-%s","fileName":"./%s","checksums":[{"algorithm":"SHA1","checksumValue":"%s"},{"algorithm":"SHA256","checksumValue":"%s"}],"licenseConcluded":"NOASSERTION","copyrightText":"NOASSERTION"}' \
		"$([ -s "$tmp/files" ] && echo ,)" "$(id "$f")" "$f" "$(sha1sum <"$b/$f" | cut -c1-40)" "$(sha256sum <"$b/$f" | cut -c1-64)" >>"$tmp/files"
	printf ',' >>"$tmp/relations"
	relation hone CONTAINS "file-$(id "$f")" >>"$tmp/relations"
	ldd "$b/$f" | sed -n "s/.* => \(\/[^ ]*\) .*/$(id "$f") \1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/$(id "$f") \1/p" >>"$tmp/libraries"
done
cut -d' ' -f2 "$tmp/libraries" | sort -u | while read -r lib; do
	p=$(owner "$lib" | head -1 | sed 's/: .*//')
	[ -z "$p" ] || sed -n "s|^\([^ ]*\) $lib\$|\1 $p|p" "$tmp/libraries"
done >"$tmp/loads"
# The code of a package: the hash of its files' hashes, sorted.
code=$(for f in $made; do sha1sum <"$b/$f" | cut -c1-40; done | LC_ALL=C sort | tr -d '\n' | sha1sum | cut -c1-40)
code='"filesAnalyzed":true,"packageVerificationCode":{"packageVerificationCodeValue":"'$code'"}'
package hone hone "$version" Apache-2.0 >"$tmp/packages"
code=
printf ',' >>"$tmp/packages"
package llvm llvm "$llvm" "Apache-2.0 WITH LLVM-exception" >>"$tmp/packages"
printf ',' >>"$tmp/relations"
relation file-hone-worker STATIC_LINK llvm >>"$tmp/relations"
cut -d' ' -f2 "$tmp/loads" | sort -u | while read -r p; do
	name=${p%%:*} v=$(dpkg-query -W -f '${Version}' "$p")
	printf ',' >>"$tmp/packages"
	package "deb-$(id "$name")" "$name" "$v" NOASSERTION "pkg:deb/debian/$name@$v" >>"$tmp/packages"
done
sort -u "$tmp/loads" | while read -r f p; do
	printf ',' >>"$tmp/relations"
	relation "file-$f" DYNAMIC_LINK "deb-$(id "${p%%:*}")" >>"$tmp/relations"
done
# The name of a document is unique: it is made of the hashes of what the document describes.
printf '{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT","name":"hone-%s","documentNamespace":"urn:hone:sbom:%s","creationInfo":{"created":"%s","creators":["Tool: hone-%s"]},"packages":[%s],"files":[%s],"relationships":[%s]}\n' \
	"$version" "$(sha256sum <"$tmp/files" | cut -c1-32)" "$date" "$version" "$(cat "$tmp/packages")" "$(cat "$tmp/files")" "$(cat "$tmp/relations")"
