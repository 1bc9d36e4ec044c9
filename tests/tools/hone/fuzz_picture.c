/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes any bytes as a PNG or JPEG: an error, or a picture all of whose pixels can be read and resized.
 * Pictures of more than a million pixels are left out, because they only take time. */
#include "tools/hone/picture.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST = 1 << 20 };

/* Whether the size in the header is over MOST; 16 bytes are where PNG says it, a JPEG's frame is searched. */
static bool is_large(const uint8_t *p, size_t n)
{
	if (n > 24 && p[0] == 0x89)
		return (double)(p[16] << 24 | p[17] << 16 | p[18] << 8 | p[19]) *
			   (p[20] << 24 | p[21] << 16 | p[22] << 8 | p[23]) >
		       MOST;
	for (size_t i = 2; i + 8 < n; i++)
		if (p[i] == 0xff && (p[i + 1] & 0xf0) == 0xc0 &&
		    (p[i + 5] << 8 | p[i + 6]) * (p[i + 7] << 8 | p[i + 8]) > MOST)
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	float data[3 * 5 * 4];
	struct tensor t = {DT_F32, {4, {1, 3, 5, 4}}, data};
	struct arena a = {0};
	struct blob file = {p, n};
	struct picture pic;
	if (!is_large(p, n) && picture_decode(&a, &file, &pic) >= 0) {
		unsigned sum = 0;
		for (size_t i = 0; i < (size_t)pic.w * (size_t)pic.h * 3; i++)
			sum += pic.rgb[i];
		int rc = picture_put(&pic, &(struct picture_opts){0}, &t);
		for (int i = 0; i < 60; i++)
			if (rc < 0 || !(data[i] >= 0 && data[i] <= 255) || sum > 255u * MOST * 3)
				abort();
	}
	arena_free(&a);
	return 0;
}
