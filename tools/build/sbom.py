# SPDX-License-Identifier: Apache-2.0
"""What an installation is made of, as SPDX 2.3 (JSON).

sbom.py TREE VERSION LLVM_VERSION [SYSROOT] > FILE    TREE is what `make install DESTDIR=TREE` made. Each file with its hashes, the Debian
    packages whose libraries programs load, and LLVM, which hone-worker has inside. SYSROOT: where the libraries of another board are;
    without it they are this machine's.
sbom.py --check FILE TREE    every file and every library of TREE is in FILE, and FILE names no other."""
import datetime
import functools
import glob
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.parse

# As in Debian's package names; the loader comes with the C library.
LOADER = re.compile(r"^ld-linux.*\.so\.\d$")


def fail(text):
    sys.exit(f"hone: error: {text}")


def tree_files(tree):
    found = []
    for folder, _, names in os.walk(tree):
        found += [os.path.relpath(os.path.join(folder, n), tree) for n in names if not os.path.islink(os.path.join(folder, n))]
    if not found:
        fail(f"no files in {tree}: make install DESTDIR={tree}")
    return sorted(found)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def needed(path):
    """The names of the libraries that a program or library loads."""
    if read(path)[:4] != b"\x7fELF":
        return []
    said = subprocess.run(["readelf", "-d", path], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    return [n for n in re.findall(r"\(NEEDED\).*\[(.*)\]", said) if not LOADER.match(n)]


@functools.lru_cache(maxsize=None)
def known_libraries():
    return subprocess.run(["ldconfig", "-p"], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


@functools.lru_cache(maxsize=None)
def own_owner(name):
    """The package of this machine that has a library, and its version."""
    paths = re.findall(r"^\s*" + re.escape(name) + r" .* => (\S+)$", known_libraries(), re.M)
    for path in [p for q in paths for p in (q, os.path.realpath(q), "/usr" + q)]:
        got = subprocess.run(["dpkg-query", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
        if got.returncode == 0:
            package = got.stdout.split(": ")[0].split(",")[0]
            version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=True, stdout=subprocess.PIPE, universal_newlines=True)
            return package.split(":")[0], version.stdout
    return fail(f"no package has {name}")


def board_owner(sysroot, name):
    """The same, of a board: shlibs.cross has the names of packages, which left their changelogs in the sysroot."""
    stem, _, number = name.partition(".so.")
    stem, number = (stem, number) if number else re.match(r"(.*)-(\d.*)\.so$", name).groups()
    for line in open(os.path.join(os.path.dirname(__file__), "../../configs/debian/shlibs.cross")):
        words = line.split()
        if words[:2] == [stem, number]:
            for log in glob.glob(f"{sysroot}/usr/share/doc/{words[2]}/changelog.Debian*.gz"):
                with gzip.open(log, "rt", errors="replace") as f:
                    return words[2], re.match(r"\S+ \(([^)]*)\)", f.readline()).group(1)
            return words[2], ""
    return fail(f"configs/debian/shlibs.cross does not say which package has {name}")


def package(ident, name, version, declared, more):
    made = {"SPDXID": ident, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": declared, "copyrightText": "NOASSERTION", **more}
    return {k: v for k, v in made.items() if v != ""}


def ident(kind, name):
    # Names that differ in other characters alone must not become one.
    plain = re.sub(r"[^A-Za-z0-9.]", "-", name)
    return f"SPDXRef-{kind}-{plain}" + ("" if plain == name.replace("/", "-") else "-" + hashlib.sha256(name.encode()).hexdigest()[:8])


def describe(tree, version, llvm, sysroot=""):
    names = tree_files(tree)
    own = {os.path.basename(n) for n in names}
    files, packages, relations = [], {}, []

    def relate(one, how, other):
        relations.append({"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other})

    relate("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-hone")
    for name in names:
        data, this = read(os.path.join(tree, name)), ident("file", name)
        sums = [("SHA1", hashlib.sha1(data)), ("SHA256", hashlib.sha256(data))]
        files.append({"SPDXID": this, "fileName": "./" + name, "checksums": [{"algorithm": a, "checksumValue": s.hexdigest()} for a, s in sums],
                      "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
        relate("SPDXRef-hone", "CONTAINS", this)
        for library in needed(os.path.join(tree, name)):
            if library in own:
                continue
            debian, release = board_owner(sysroot, library) if sysroot else own_owner(library)
            where = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": f"pkg:deb/debian/{debian}" + ("@" + urllib.parse.quote(release, safe="") if release else "")}]
            packages[debian] = package(ident("deb", debian), debian, release, "NOASSERTION", {"externalRefs": where})
            relations.append({"spdxElementId": this, "relationshipType": "DYNAMIC_LINK", "relatedSpdxElement": ident("deb", debian), "comment": library})
        if os.path.basename(name) == "hone-worker":
            packages["llvm"] = package("SPDXRef-llvm", "llvm", llvm, "Apache-2.0 WITH LLVM-exception", {})
            relate(this, "STATIC_LINK", "SPDXRef-llvm")
    code = hashlib.sha1("".join(sorted(f["checksums"][0]["checksumValue"] for f in files)).encode()).hexdigest()
    hone = package("SPDXRef-hone", "hone", version, "Apache-2.0", {"filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": code}})
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    # The name of a document is unique: it comes from the hashes of what the document describes.
    unique = hashlib.sha256(json.dumps([files, packages], sort_keys=True).encode()).hexdigest()[:32]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"hone-{version}", "documentNamespace": f"urn:hone:sbom:{unique}",
            "creationInfo": {"created": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: hone-{version}"]},
            "packages": [hone] + [packages[p] for p in sorted(packages)], "files": files, "relationships": relations}


def check(path, tree):
    with open(path) as f:
        sbom = json.load(f)
    told = {f["fileName"][2:]: {c["algorithm"]: c["checksumValue"] for c in f["checksums"]} for f in sbom["files"]}
    names = tree_files(tree)
    mistakes = [f"{n}: not in the list" for n in names if n not in told] + [f"{n}: in the list, and not there" for n in told if n not in names]
    ids = {f["SPDXID"]: f["fileName"][2:] for f in sbom["files"]}
    known = set(ids) | {p["SPDXID"] for p in sbom["packages"]} | {"SPDXRef-DOCUMENT"}
    if len(ids) != len(told) or len(known) != len(ids) + len(sbom["packages"]) + 1:
        mistakes.append("two things have one SPDXID")
    links = set()
    for r in sbom["relationships"]:
        mistakes += [f"{end}: related, and not described" for end in (r["spdxElementId"], r["relatedSpdxElement"]) if end not in known]
        if r["relationshipType"] == "DYNAMIC_LINK":
            links.add((ids.get(r["spdxElementId"]), r["comment"]))
    own = {os.path.basename(n) for n in names}
    for n in names:
        data = read(os.path.join(tree, n))
        if n in told and told[n] != {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}:
            mistakes.append(f"{n}: another file than the list has")
        mistakes += [f"{n}: its library {k} is not in the list" for k in needed(os.path.join(tree, n)) if k not in own and (n, k) not in links]
    if not any(r["relationshipType"] == "STATIC_LINK" and ids.get(r["spdxElementId"], "").endswith("hone-worker") for r in sbom["relationships"]):
        mistakes.append("LLVM of hone-worker is not in the list")
    if mistakes:
        sys.exit("\n".join(mistakes))
    print(f"{len(told)} files, {len(sbom['packages'])} packages, {len(links)} links to libraries")


if sys.argv[1:2] == ["--check"] and len(sys.argv) == 4:
    check(*sys.argv[2:])
elif len(sys.argv) in (4, 5):
    print(json.dumps(describe(*sys.argv[1:]), separators=(",", ":")))
else:
    sys.exit(__doc__)
