#!/bin/bash -e
# SPDX-License-Identifier: Apache-2.0
if [ ! -d "${ROOTFS_DIR}" ]; then
	copy_previous
fi
