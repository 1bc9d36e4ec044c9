# SPDX-License-Identifier: Apache-2.0
# A robot's model, its section of the configuration, and the pack that one board of the class made (hone pack). A layer above
# puts model.onnx and seed.seg beside this file (FILESEXTRAPATHS), or says where they are.
SUMMARY = "A model that hone keeps tuned, and the kernels that it begins with"
DESCRIPTION = "The model, its section of the configuration of honed, and a seed pack"
HOMEPAGE = "https://hone.invalid"
SECTION = "utils"
LICENSE = "CLOSED"

HONE_MODEL ?= "file://model.onnx"
HONE_PACK ?= "file://seed.seg"
SRC_URI = "${HONE_MODEL} ${HONE_PACK} file://robot.conf"
S = "${UNPACKDIR}"

do_install() {
    install -D -m 0644 ${UNPACKDIR}/model.onnx ${D}/opt/robot/model.onnx
    install -D -m 0644 ${UNPACKDIR}/seed.seg ${D}${datadir}/hone/cache/seed.seg
    install -D -m 0644 ${UNPACKDIR}/robot.conf ${D}${sysconfdir}/hone/honed.conf.d/robot.conf
}

FILES:${PN} = "/opt/robot ${datadir}/hone/cache ${sysconfdir}/hone/honed.conf.d"
RDEPENDS:${PN} = "honed"
CONFFILES:${PN} = "${sysconfdir}/hone/honed.conf.d/robot.conf"
