# SPDX-License-Identifier: Apache-2.0
# The packages are those of configs/debian. The sources are the tarball of `make deb` (build/deb/hone_0.1.0.orig.tar.xz), which has to lie in
# a folder of FILESEXTRAPATHS, or whatever HONE_SRC_URI says. hone-native makes the kernels that come with libhone, and manual pages.
SUMMARY = "Tunes neural networks on the board that runs them"
DESCRIPTION = "hone searches the fastest kernels of a neural network on the board that runs it, and runs the network with them."
HOMEPAGE = "https://hone.invalid"
SECTION = "utils"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

DEPENDS = "curl hwloc jansson jpeg libinih libmicrohttpd libpng libseccomp libuv llvm mbedtls postgresql protobuf-c protobuf-c-native sqlite3 zlib zstd zstd-native"
DEPENDS:append:class-target = " hone-native"
DEPENDS:class-native = "curl-native hwloc-native jansson-native jpeg-native libinih-native libmicrohttpd-native libpng-native libseccomp-native libuv-native llvm-native mbedtls-native postgresql-native protobuf-c-native sqlite3-native zlib-native zstd-native"

HONE_SRC_URI ?= "file://hone_${PV}.orig.tar.xz"
SRC_URI = "${HONE_SRC_URI}"
S = "${UNPACKDIR}/hone-${PV}"

inherit pkgconfig python3-dir systemd useradd

# Which Arm code is made: a name of configs/boards.
HONE_BOARD ?= "${@bb.utils.contains('TARGET_ARCH', 'arm', 'generic-armhf', 'generic-arm64', d)}"
HONE_NATIVE = "${STAGING_DATADIR_NATIVE}/hone-native"
EXTRA_OEMAKE = "BOARD=${HONE_BOARD} B=build-yocto TRIPLE=${TARGET_SYS} SYSROOT=${STAGING_DIR_TARGET} MAKER=${STAGING_BINDIR_NATIVE}/hone-maker HERE=@: \
                PREFIX=${prefix} PYTHON_SITE=${PYTHON_SITEPACKAGES_DIR} LLVM_INCLUDE=${STAGING_INCDIR} LLVM_LIBS=-lLLVM"
EXTRA_OEMAKE:class-native = "B=build LLVM_CONFIG=${STAGING_BINDIR_NATIVE}/llvm-config CPPFLAGS='${BUILD_CPPFLAGS}' LDFLAGS='${BUILD_LDFLAGS}'"

do_compile() {
    # What `make sysroot` leaves behind, and what programs of this machine have written.
    touch ${STAGING_DIR_TARGET}/.complete
    install -d build
    cp -r ${HONE_NATIVE}/man ${HONE_NATIVE}/hone ${HONE_NATIVE}/honed ${HONE_NATIVE}/hone-sync build
    oe_runmake CFLAGS="${TUNE_CCARGS} -O2 -g" all
}

do_compile:class-native() {
    oe_runmake build/hone-maker build/hone build/honed build/hone-sync build/man
}

do_install() {
    oe_runmake CFLAGS="${TUNE_CCARGS} -O2 -g" install DESTDIR=${D}
    if [ "${systemd_system_unitdir}" != "${nonarch_libdir}/systemd/system" ]; then
        install -d ${D}${systemd_system_unitdir}
        mv ${D}${nonarch_libdir}/systemd/system/* ${D}${systemd_system_unitdir}
        rmdir -p --ignore-fail-on-non-empty ${D}${nonarch_libdir}/systemd/system
    fi
}

do_install:class-native() {
    install -d ${D}${bindir} ${D}${datadir}/hone-native
    install -m 0755 build/hone-maker ${D}${bindir}
    install -m 0755 build/hone build/honed build/hone-sync ${D}${datadir}/hone-native
    cp -r build/man ${D}${datadir}/hone-native
}

PACKAGES =+ "honed hone-worker libhone libhone-dev libhone-staticdev python3-hone"

FILES:honed = "${bindir}/honed ${bindir}/hone-sync ${datadir}/bash-completion/completions/honed ${datadir}/bash-completion/completions/hone-sync ${sysconfdir}/hone ${systemd_system_unitdir} ${nonarch_libdir}/sysusers.d ${nonarch_libdir}/tmpfiles.d ${docdir}/hone/examples/*.conf"
FILES:hone-worker = "${bindir}/hone-worker"
FILES:libhone = "${libdir}/libhone.so.* ${libdir}/hone/libhone-device.so ${libdir}/hone/*.zst"
FILES:libhone-dev = "${includedir} ${libdir}/libhone.so ${libdir}/pkgconfig ${docdir}/hone/examples/*.c ${docdir}/hone/examples/*.cpp ${mandir}/man3"
FILES:libhone-staticdev = "${libdir}/libhone.a"
FILES:python3-hone = "${PYTHON_SITEPACKAGES_DIR}/hone"
FILES:${PN} += "${bindir}/hone ${nonarch_libdir}/hone/hone-image ${datadir}/bash-completion"
FILES:${PN}-doc += "${docdir}/hone/grafana ${docdir}/hone/nginx"

RDEPENDS:${PN} = "hone-worker"
RDEPENDS:honed = "hone hone-worker"
RDEPENDS:libhone-dev = "libhone protobuf-c-dev zstd-dev"
RDEPENDS:python3-hone = "libhone python3-core python3-ctypes"
RRECOMMENDS:${PN} = "honed"

SYSTEMD_PACKAGES = "honed"
SYSTEMD_SERVICE:honed = "honed.socket honed.service hone-worker.socket hone-boot.service"
# An image that has a model turns the box and the daemon on.
SYSTEMD_AUTO_ENABLE:honed = "${@'enable' if d.getVar('HONE_ENABLE') == '1' else 'disable'}"

USERADD_PACKAGES = "honed"
USERADD_PARAM:honed = "--system --home-dir ${localstatedir}/lib/hone --no-create-home --shell /sbin/nologin --user-group hone; \
                       --system --no-create-home --shell /sbin/nologin --user-group hone-worker; \
                       --system --home-dir ${localstatedir}/lib/hone-sync --no-create-home --shell /sbin/nologin --user-group hone-sync"

CONFFILES:honed = "${sysconfdir}/hone/honed.conf"

BBCLASSEXTEND = "native"
