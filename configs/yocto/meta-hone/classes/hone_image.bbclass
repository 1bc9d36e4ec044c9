# SPDX-License-Identifier: Apache-2.0
# For an image: `inherit hone_image` adds the daemon, a model, and the kernels that it begins with.
IMAGE_INSTALL:append = " hone honed hone-robot"

# Tuning results have to survive an update: their folder lies on the data partition, if the image names one. A real folder that
# a board has there already stays, with its results, because L does not replace it as L+ would.
HONE_DATA ?= ""
hone_data_folder[doc] = "Puts the folder of tuning results on the data partition"
hone_data_folder() {
    if [ -n "${HONE_DATA}" ]; then
        install -d ${IMAGE_ROOTFS}${sysconfdir}/tmpfiles.d
        echo "L ${localstatedir}/lib/hone - - - - ${HONE_DATA}/hone" > ${IMAGE_ROOTFS}${sysconfdir}/tmpfiles.d/hone-data.conf
        echo "d ${HONE_DATA}/hone 0755 hone hone -" >> ${IMAGE_ROOTFS}${sysconfdir}/tmpfiles.d/hone-data.conf
    fi
}
ROOTFS_POSTPROCESS_COMMAND += "hone_data_folder;"
