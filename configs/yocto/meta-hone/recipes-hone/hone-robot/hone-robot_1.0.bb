# SPDX-License-Identifier: Apache-2.0
# A robot's model, its section of the configuration, and the pack that one board of the class made (hone pack), if HONE_PACK names one.
# The files lie in a folder of FILESEXTRAPATHS, or the URIs say where else. They may have any name: the board's names stay the same.
SUMMARY = "A model that hone keeps tuned, and the kernels that it begins with"
DESCRIPTION = "The model, its section of the configuration of honed, and a seed pack"
HOMEPAGE = "https://hone.invalid"
SECTION = "utils"
LICENSE = "CLOSED"

HONE_MODEL ?= "file://model.onnx"
HONE_PACK ?= ""
SRC_URI = "${HONE_MODEL} ${HONE_PACK} file://robot.conf"
S = "${UNPACKDIR}"

# Where the file of the URI in a variable lies below UNPACKDIR: bitbake keeps the folders of file:// alone.
def hone_unpacked(d, name):
    scheme, _, path = (d.getVar(name) or "").strip().split(";")[0].partition("://")
    return path.lstrip("/") if scheme == "file" else path.rsplit("/", 1)[-1]

do_install() {
    install -D -m 0644 "${UNPACKDIR}/${@hone_unpacked(d, 'HONE_MODEL')}" ${D}/opt/robot/model.onnx
    if [ -n "${HONE_PACK}" ]; then
        install -D -m 0644 "${UNPACKDIR}/${@hone_unpacked(d, 'HONE_PACK')}" ${D}${datadir}/hone/cache/seed.seg
    fi
    install -D -m 0644 ${UNPACKDIR}/robot.conf ${D}${sysconfdir}/hone/honed.conf.d/robot.conf
}

FILES:${PN} = "/opt/robot ${datadir}/hone/cache ${sysconfdir}/hone/honed.conf.d"
RDEPENDS:${PN} = "honed"
CONFFILES:${PN} = "${sysconfdir}/hone/honed.conf.d/robot.conf"
