/* SPDX-License-Identifier: Apache-2.0 */
/* A static program opens no drivers: they would bring another C library with them. Looking for one finds none. */
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}

int dlclose(void *handle)
{
	(void)handle;
	return 0;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
	(void)handle, (void)name;
	return NULL;
}

char *dlerror(void)
{
	static char text[] = "this program is linked statically and opens no drivers; the dynamic one does";
	return text;
}
