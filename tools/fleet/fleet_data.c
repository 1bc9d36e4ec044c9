/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_data.h"

#define FILE_AS(name, path)                                                                                  \
	__asm__(".pushsection .rodata\n.globl " #name ", " #name "_end\n" #name ":\n.incbin \"" path         \
		"\"\n" #name "_end:\n.byte 0\n.popsection\n")

FILE_AS(fleet_data_openapi, "configs/fleet/openapi.json");
FILE_AS(fleet_data_style, "configs/fleet/page.css");
