# SPDX-License-Identifier: Apache-2.0
"""One wheel for all Pythons, without network or packages: wheel.py OUT. A wheel is a zip file with a list of its files."""
import base64
import hashlib
import os
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
Summary: runs neural networks with kernels tuned on the board that runs them (needs libhone)
License: Apache-2.0
Requires-Python: >=3.8
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: hone\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def main(out):
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"hone-{VERSION}-py3-none-any.whl")
    files = {
        f"hone/{name}": open(os.path.join(here, "hone", name), "rb").read()
        for name in sorted(os.listdir(os.path.join(here, "hone")))
        if name.endswith((".py", ".pyi", ".typed"))
    }
    files[f"{INFO}/METADATA"] = METADATA.encode()
    files[f"{INFO}/WHEEL"] = WHEEL.encode()
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


main(sys.argv[1])
