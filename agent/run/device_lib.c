/* SPDX-License-Identifier: Apache-2.0 */
/* The only name that libhone-device.so exports, and its errors, which it hands to libhone: the Makefile lets
 * `fail` be device_fail there, and so on. No other program links this file. */
#include "agent/run/device_fit.h"
#include "agent/run/inject.h"
#include "kernels/library/library.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 1024 };

int device_fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int device_fail_in(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *device_err_text(void);

static const struct device_host *host;

static void use(const struct device_host *h)
{
	host = h;
}

int device_fail(int rc, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return host->fail(rc, "%s", text);
}

int device_fail_in(int rc, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return host->fail_in(rc, "%s", text);
}

const char *device_err_text(void)
{
	return host->text();
}

__attribute__((visibility("default")))
const struct device_lib hone_device_lib = {.fit = DEVICE_FIT,
					   .use = use,
					   .open = plan_device_open,
					   .close = plan_device_close,
					   .target = plan_device_target,
					   .of = plan_device_use,
					   .libraries = &library_foreign,
					   .injector = &hone_injector};
