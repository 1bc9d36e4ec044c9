#!/bin/bash -e
# SPDX-License-Identifier: Apache-2.0
systemd-sysusers /usr/local/lib/sysusers.d/hone.conf
ldconfig
honed --check
systemctl enable hone-worker.socket honed.socket honed.service hone-boot.service
