#!/bin/bash -e
# SPDX-License-Identifier: Apache-2.0
# files/ has hone.tar.gz (of `make tarball BOARD=...`), model.onnx and robot.conf; and seed.seg (of `hone pack`), if there is one.
tar -C "${ROOTFS_DIR}" --no-same-owner -xzf files/hone.tar.gz
install -D -m 644 "${ROOTFS_DIR}/usr/local/share/doc/hone/examples/honed.conf" "${ROOTFS_DIR}/etc/hone/honed.conf"
install -D -m 644 files/robot.conf "${ROOTFS_DIR}/etc/hone/honed.conf.d/robot.conf"
install -D -m 644 files/model.onnx "${ROOTFS_DIR}/opt/robot/model.onnx"
if [ -e files/seed.seg ]; then
	install -D -m 644 files/seed.seg "${ROOTFS_DIR}/usr/share/hone/cache/seed.seg"
fi
