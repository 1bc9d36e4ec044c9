################################################################################
#
# hone
#
################################################################################

# SPDX-License-Identifier: Apache-2.0
HONE_VERSION = 0.1.0
HONE_TARBALL = $(call qstrip,$(BR2_PACKAGE_HONE_TARBALL))
HONE_MODEL = $(call qstrip,$(BR2_PACKAGE_HONE_MODEL))
HONE_PACK = $(call qstrip,$(BR2_PACKAGE_HONE_PACK))
HONE_SOURCE = $(notdir $(HONE_TARBALL))
HONE_SITE = $(patsubst %/,%,$(dir $(HONE_TARBALL)))
HONE_SITE_METHOD = file
HONE_STRIP_COMPONENTS = 0
HONE_LICENSE = Apache-2.0
HONE_INSTALL_STAGING = YES
BR_NO_CHECK_HASH_FOR += $(HONE_SOURCE)

define HONE_INSTALL_STAGING_CMDS
	mkdir -p $(STAGING_DIR)/usr/include $(STAGING_DIR)/usr/lib
	cp -a $(@D)/usr/local/include/. $(STAGING_DIR)/usr/include
	cp -a $(@D)/usr/local/lib/libhone.so* $(STAGING_DIR)/usr/lib
endef

# Buildroot's loader looks into /usr/lib alone.
define HONE_INSTALL_TARGET_CMDS
	mkdir -p $(TARGET_DIR)/usr/local $(TARGET_DIR)/usr/lib
	cp -a $(@D)/usr/local/. $(TARGET_DIR)/usr/local
	ln -sfn ../local/lib/libhone.so.1 $(TARGET_DIR)/usr/lib/libhone.so.1
	ln -sfn ../local/lib/hone $(TARGET_DIR)/usr/lib/hone
	$(INSTALL) -D -m 644 $(@D)/usr/local/share/doc/hone/examples/honed.conf $(TARGET_DIR)/etc/hone/honed.conf
	$(if $(HONE_MODEL),$(INSTALL) -D -m 644 $(HONE_MODEL) $(TARGET_DIR)/opt/robot/model.onnx)
	$(if $(HONE_MODEL),$(INSTALL) -D -m 644 $(BR2_EXTERNAL_HONE_PATH)/package/hone/robot.conf $(TARGET_DIR)/etc/hone/honed.conf.d/robot.conf)
	$(if $(HONE_PACK),$(INSTALL) -D -m 644 $(HONE_PACK) $(TARGET_DIR)/usr/share/hone/cache/seed.seg)
endef

define HONE_INSTALL_INIT_SYSTEMD
	mkdir -p $(TARGET_DIR)/etc/systemd/system/multi-user.target.wants $(TARGET_DIR)/etc/systemd/system/sockets.target.wants
	$(foreach u,honed.service honed.socket hone-boot.service,ln -sfn /usr/local/lib/systemd/system/$(u) \
		$(TARGET_DIR)/etc/systemd/system/multi-user.target.wants/$(u)$(sep))
	ln -sfn /usr/local/lib/systemd/system/hone-worker.socket $(TARGET_DIR)/etc/systemd/system/sockets.target.wants/hone-worker.socket
endef

define HONE_USERS
	hone -1 hone -1 * /var/lib/hone - - hone agent
	hone-worker -1 hone-worker -1 * - - - hone worker
	hone-sync -1 hone-sync -1 * /var/lib/hone-sync - - hone sync
endef

$(eval $(generic-package))
