/* SPDX-License-Identifier: Apache-2.0 */
/* honed: agent/honed.h driven by libuv. */
#include <stdio.h>

int main(void)
{
	printf("honed %s\n", HONE_VERSION);
	return 0;
}
