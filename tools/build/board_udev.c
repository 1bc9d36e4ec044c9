/* SPDX-License-Identifier: Apache-2.0 */
/* Debian has no archive of libudev, from which hwloc takes a disk's vendor alone. Without a context it calls none of the others. */
#include <stddef.h>

void *udev_new(void);
void *udev_unref(void *udev);
void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *sysname);
void *udev_device_unref(void *device);
const char *udev_device_get_property_value(void *device, const char *key);

void *udev_new(void)
{
	return NULL;
}

void *udev_unref(void *udev)
{
	(void)udev;
	return NULL;
}

void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *sysname)
{
	(void)udev, (void)subsystem, (void)sysname;
	return NULL;
}

void *udev_device_unref(void *device)
{
	(void)device;
	return NULL;
}

const char *udev_device_get_property_value(void *device, const char *key)
{
	(void)device, (void)key;
	return NULL;
}
