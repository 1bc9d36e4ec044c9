/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as an object of each machine, and links it: the result is an error, or an image. */
#include "platform/run/elf.h"

#include <elf.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const int machines[] = {EM_X86_64, EM_AARCH64, EM_ARM};
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct elf e;
		if (elf_read(&e, p, n, machines[i]) < 0)
			continue;
		uint8_t *image =
		    malloc(e.image_bytes); /* exact, so that a sanitizer sees each write past it */
		if (image)
			(void)!elf_link(&e, 0x12345000, image);
		free(image);
	}
	return 0;
}
