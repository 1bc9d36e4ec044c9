/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the orientation in EXIF (CIPA DC-008), a TIFF file whose first directory has it as tag 0x112. A JPEG
 * has it in a segment of type APP1. Nothing is allocated; damage ends the search. */
#include "tools/hone/picture.h"
#include <string.h>

enum { SOS = 0xda, APP1 = 0xe1, TAG = 0x112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

/* A number of n bytes at an offset; 0 beyond the end. */
static uint32_t number(const uint8_t *p, size_t size, size_t at, int n, bool little)
{
	uint32_t v = 0;
	for (int i = 0; i < n && at <= size && size - at >= (size_t)n; i++)
		v |= (uint32_t)p[at + (size_t)i] << 8 * (little ? i : n - 1 - i);
	return v;
}

int picture_exif_orientation(const uint8_t *p, size_t size)
{
	const bool little = size >= 2 && !memcmp(p, "II", 2);
	if (size < 8 || (!little && memcmp(p, "MM", 2) != 0) || number(p, size, 2, 2, little) != 42)
		return 0;
	const size_t dir = number(p, size, 4, 4, little);
	const uint32_t entries = number(p, size, dir, 2, little);
	for (uint32_t i = 0; i < entries; i++) {
		const size_t at = dir + 2 + (size_t)i * ENTRY_BYTES;
		if (number(p, size, at, 2, little) != TAG || number(p, size, at + 2, 2, little) != TYPE_SHORT)
			continue;
		const uint32_t v = number(p, size, at + 8, 2, little);
		return v >= 1 && v <= 8 ? (int)v : 0;
	}
	return 0;
}

int picture_orientation(const struct blob *file)
{
	static const char name[6] = "Exif\0";
	const uint8_t *p = file->p;
	for (size_t at = 2; at < file->n && file->n - at >= 4 && p[at] == 0xff && p[at + 1] != SOS;) {
		if (p[at + 1] == 0xff) { /* bytes of 0xff may precede a marker */
			at++;
			continue;
		}
		const size_t n = number(p, file->n, at + 2, 2, false); /* with its own two bytes */
		if (n < 2 || n > file->n - at - 2)
			return 0;
		if (p[at + 1] == APP1 && n >= 2 + sizeof name && !memcmp(p + at + 4, name, sizeof name))
			return picture_exif_orientation(p + at + 4 + sizeof name, n - 2 - sizeof name);
		at += 2 + n;
	}
	return 0;
}
