# SPDX-License-Identifier: Apache-2.0
"""A wheel, without network or packages: wheel.py OUT makes one for all machines, which needs an installed libhone, and
wheel.py OUT LIBHONE FILE... one that brings libhone with it, and the files that libhone looks for beside itself. LICENSE and
PACKAGE/copyright among the files are licences, of hone and of libraries inside libhone. A wheel is a zip file with a list of its files."""
import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import zipfile

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
VERSION = next(
    line.split('"')[1] for line in open(os.path.join(here, "hone", "__init__.py")) if line.startswith("__version__")
)
INFO = f"hone-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: hone
Version: {VERSION}
Summary: runs neural networks with kernels tuned on the board that runs them
License: Apache-2.0
Requires-Python: >=3.8
"""
MACHINES = {40: "armv7l", 62: "x86_64", 183: "aarch64"}  # by e_machine of ELF


def platform(libraries):
    """The tag of machines that can load the libraries: their architecture, and the newest glibc that one asks for."""
    with open(libraries[0], "rb") as f:
        machine = MACHINES[struct.unpack_from("<H", f.read(20), 18)[0]]
    needs = subprocess.run(["readelf", "-V", *libraries], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9]+\.[0-9]+)", needs))
    return "manylinux_%d_%d_%s" % (*newest, machine)


def main(out, libhone=None, *beside):
    os.makedirs(out, exist_ok=True)
    for name in beside:
        if not os.path.exists(name):
            sys.exit(f"wheel: no {name}, which the wheel needs: install its package with its documentation, or make sysroot again")
    tag = "py3-none-" + (platform([f for f in (libhone, *beside) if f.endswith(".so")]) if libhone else "any")
    wheel = f"Wheel-Version: 1.0\nGenerator: hone\nRoot-Is-Purelib: {str(not libhone).lower()}\nTag: {tag}\n"
    path = os.path.join(out, f"hone-{VERSION}-{tag}.whl")
    files = {
        f"hone/{name}": open(os.path.join(here, "hone", name), "rb").read()
        for name in sorted(os.listdir(os.path.join(here, "hone")))
        if name.endswith((".py", ".pyi", ".typed"))
    }
    if libhone:
        files["hone/libhone.so.1"] = open(libhone, "rb").read()
        for name in beside:
            if os.path.basename(name) == "copyright":
                files[f"{INFO}/licenses/{os.path.basename(os.path.dirname(name))}.txt"] = open(name, "rb").read()
            elif os.path.basename(name) == "LICENSE":
                files[f"{INFO}/licenses/LICENSE"] = open(name, "rb").read()
            else:
                files[f"hone/hone/{os.path.basename(name)}"] = open(name, "rb").read()
    files[f"{INFO}/METADATA"] = METADATA.encode()
    files[f"{INFO}/WHEEL"] = wheel.encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{INFO}/RECORD"] = (record + f"{INFO}/RECORD,,\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes each time
            entry.external_attr = 0o644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    print(path)


main(*sys.argv[1:])
