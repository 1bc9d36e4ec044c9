/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG as tensors: decoding, bounds, damaged files, resizing. */
#include "tools/hone/picture.h"
#include "platform/base/rng.h"
#include "tests/lib/pictures.h"
#include "tests/lib/test.h"
#include <math.h>

static struct blob blob_of(struct buf *b)
{
	return (struct blob){buf_str(b), b->n};
}

/* Checks the decoded test picture. gray: all channels are the first one. most: largest difference per sample.
 */
static void check_pixels(const struct picture *p, int w, int h, bool gray, int most)
{
	int worst = 0;
	REQUIRE(p->w == w && p->h == h);
	for (int i = 0; i < w * h * 3; i++) {
		int d = abs(p->rgb[i] - pic_sample(i / 3 % w, i / 3 / w, gray ? 0 : i % 3));
		worst = d > worst ? d : worst;
	}
	CHECK(worst <= most);
}

TEST(png_of_every_kind)
{
	static const struct {
		int type, depth;
	} kinds[] = {{PNG_COLOR_TYPE_RGB, 8},       {PNG_COLOR_TYPE_RGB, 16},
		     {PNG_COLOR_TYPE_RGB_ALPHA, 8}, {PNG_COLOR_TYPE_GRAY, 8},
		     {PNG_COLOR_TYPE_GRAY, 16},     {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
		     {PNG_COLOR_TYPE_PALETTE, 8},   {PNG_COLOR_TYPE_RGB_ALPHA, 16}};
	for (int i = 0; i < (int)(2 * sizeof kinds / sizeof *kinds); i++) {
		struct arena a = {0};
		struct buf b = {0};
		struct picture p = {0};
		pic_png(17, 13, kinds[i / 2].type, kinds[i / 2].depth, i & 1, &b);
		struct blob file = blob_of(&b);
		CHECK_OK(picture_decode(&a, &file, &p));
		check_pixels(&p, 17, 13,
			     kinds[i / 2].type == PNG_COLOR_TYPE_GRAY ||
				 kinds[i / 2].type == PNG_COLOR_TYPE_GRAY_ALPHA,
			     0);
		arena_free(&a);
		buf_free(&b);
	}
}

TEST(jpeg_of_every_kind)
{
	for (int i = 0; i < 3; i++) {
		struct arena a = {0};
		struct buf b = {0};
		struct picture p = {0};
		pic_jpeg(16, 16, i ? JCS_GRAYSCALE : JCS_RGB, i == 2 ? 64 : 0, &b);
		struct blob file = blob_of(&b);
		CHECK_OK(picture_decode(&a, &file, &p));
		check_pixels(&p, 16, 16, i > 0, 4);
		arena_free(&a);
		buf_free(&b);
	}
	struct arena a = {0};
	struct buf b = {0};
	struct picture p;
	pic_jpeg(8, 8, JCS_CMYK, 0, &b);
	struct blob file = blob_of(&b);
	CHECK_FAILS(picture_decode(&a, &file, &p), E_UNSUPPORTED, "CMYK");
	arena_free(&a);
	buf_free(&b);
}

TEST(a_truncated_file_is_an_error)
{
	for (int i = 0; i < 3; i++) {
		struct buf b = {0};
		if (i)
			pic_jpeg(16, 8, JCS_RGB, 0, &b);
		else
			pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, true, &b);
		for (size_t n = 0; n < b.n; n++) {
			struct arena a = {0};
			struct picture p;
			uint8_t *cut =
			    malloc(n ? n : 1); /* its own size: a sanitizer sees reads past the end */
			memcpy(cut, buf_str(&b), n);
			struct blob file = {cut, n};
			CHECK_FAILS(picture_decode(&a, &file, &p), E_CORRUPT, i || n < 8 ? "" : "truncated");
			arena_free(&a);
			free(cut);
		}
		buf_free(&b);
	}
}

TEST(flipped_bits_are_an_error_or_a_picture)
{
	int bad[2] = {0};
	for (int i = 0; i < 2; i++) {
		struct buf b = {0};
		if (i)
			pic_jpeg(16, 8, JCS_RGB, 0, &b);
		else
			pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, true, &b);
		struct arena kept = {0};
		uint8_t *p = arena_memdup(&kept, buf_str(&b), b.n);
		for (size_t bit = 0; bit < 8 * b.n; bit++) {
			struct arena a = {0};
			struct picture out = {0};
			struct blob file = {p, b.n};
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			int rc = picture_decode(&a, &file, &out);
			bad[i] += rc < 0;
			CHECK(rc < 0 || (out.w > 0 && out.h > 0 && out.rgb));
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			arena_free(&a);
		}
		arena_free(&kept);
		buf_free(&b);
	}
	CHECK(bad[0] > 500 && bad[1] > 100); /* PNG has checksums */
}

/* Writes a big-endian number of n bytes. */
static void put_big(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * (n - 1 - i));
}

static uint32_t png_crc(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;
	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

/* A tiny file that claims w x h pixels. */
static int decode_claim(bool jpeg, uint32_t w, uint32_t h, size_t *bytes)
{
	struct arena a = {0};
	struct buf b = {0};
	struct picture out;
	if (jpeg)
		pic_jpeg(8, 8, JCS_RGB, 0, &b);
	else
		pic_png(8, 8, PNG_COLOR_TYPE_RGB, 8, false, &b);
	uint8_t *p = arena_memdup(&a, buf_str(&b), b.n), *at = p + 16;
	for (at = p + 2; jpeg && !(at[0] == 0xff && at[1] == 0xc0);)
		at += 2 + at[2] * 256 + at[3];
	if (jpeg) {
		put_big(at + 5, h, 2);
		put_big(at + 7, w, 2);
	} else {
		put_big(p + 16, w, 4);
		put_big(p + 20, h, 4);
		put_big(p + 29, png_crc(p + 12, 17), 4);
	}
	struct blob file = {p, b.n};
	int rc = picture_decode(&a, &file, &out);
	*bytes = arena_bytes(&a);
	arena_free(&a);
	buf_free(&b);
	return rc;
}

TEST(huge_claims_take_no_memory)
{
	size_t bytes = 0;
	CHECK_FAILS(decode_claim(false, 9000, 9000, &bytes), E_UNSUPPORTED, "9000x9000");
	CHECK(bytes < 1 << 20);
	CHECK(decode_claim(false, 0x7fffffff, 0x7fffffff, &bytes) < 0 && bytes < 1 << 20);
	CHECK(decode_claim(false, 0x10001, 1, &bytes) < 0 && bytes < 1 << 20);
	CHECK(decode_claim(false, 0, 8, &bytes) < 0);
	CHECK_FAILS(decode_claim(true, 65000, 65000, &bytes), E_UNSUPPORTED, "65000x65000");
	CHECK(bytes < 1 << 20);
	CHECK_FAILS(decode_claim(true, 9000, 9000, &bytes), E_UNSUPPORTED, "67108864 in all");
	CHECK(decode_claim(true, 8, 0, &bytes) < 0);
	CHECK(decode_claim(true, 4096, 4096, &bytes) < 0); /* its data ends early */
}

TEST(scans_without_end_are_refused)
{
	struct arena a = {0};
	struct buf b = {0};
	struct picture p;
	pic_jpeg(16, 16, JCS_GRAYSCALE, 192, &b);
	struct blob file = blob_of(&b);
	CHECK_FAILS(picture_decode(&a, &file, &p), E_CORRUPT, "more than 100 scans");
	arena_free(&a);
	buf_free(&b);
}

TEST(other_files_are_named)
{
	struct arena a = {0};
	struct picture p;
	struct blob gif = {"GIF89a....", 10}, nothing = {"", 0};
	CHECK_FAILS(picture_decode(&a, &gif, &p), E_CORRUPT, "neither a PNG nor a JPEG");
	CHECK_FAILS(picture_decode(&a, &nothing, &p), E_CORRUPT, "neither");
	CHECK(picture_is("a.PNG") && picture_is("/x.y/b.jpeg") && picture_is("c.Jpg"));
	CHECK(!picture_is("a.npy") && !picture_is("png") && !picture_is("/a.png/b"));
	arena_free(&a);
}

/* A picture of random pixels. */
static struct picture noise(struct arena *a, int w, int h, uint64_t seed)
{
	struct rng r;
	struct picture p = {0};
	rng_seed(&r, seed);
	CHECK_OK(picture_alloc(a, (uint64_t)w, (uint64_t)h, &p));
	for (int i = 0; i < w * h * 3; i++)
		p.rgb[i] = (uint8_t)rng_below(&r, 256);
	return p;
}

static struct tensor blank(struct arena *a, enum dtype type, const char *shape)
{
	struct tensor t = {.dtype = type};
	struct shape s;
	CHECK_OK(shape_parse(shape, &s));
	CHECK_OK(tensor_alloc(a, type, &s, &t));
	return t;
}

/* Weight of source line s for output line i: a triangle around the place where it lies. */
static double weight(int s, int i, int from, int to)
{
	double at = (i + 0.5) * from / to - 0.5;
	at = at < 0 ? 0 : at > from - 1 ? from - 1 : at;
	double d = fabs(at - s);
	return d < 1 ? 1 - d : 0;
}

/* The resized value as a sum over ALL source pixels: nothing is shared with the module's way. */
static double slow(const struct picture *p, int c, int x, int y, int w, int h)
{
	double sum = 0;
	for (int sy = 0; sy < p->h; sy++)
		for (int sx = 0; sx < p->w; sx++)
			sum += weight(sx, x, p->w, w) * weight(sy, y, p->h, h) *
			       p->rgb[(sy * p->w + sx) * 3 + c];
	return sum;
}

TEST(resizing_is_bilinear_with_half_pixel_centres)
{
	static const int sizes[][4] = {{4, 4, 4, 4}, {5, 3, 11, 8}, {16, 9, 7, 4},
				       {1, 1, 3, 2}, {2, 7, 1, 1},  {13, 6, 6, 13}};
	for (int i = 0; i < 6; i++) {
		struct arena a = {0};
		int w = sizes[i][2], h = sizes[i][3];
		struct picture p = noise(&a, sizes[i][0], sizes[i][1], (uint64_t)i);
		struct tensor t = blank(&a, DT_F32, arena_printf(&a, "1x3x%dx%d", h, w));
		double worst = 0;
		CHECK_OK(picture_put(&p, &(struct picture_opts){0}, &t));
		for (int at = 0; at < 3 * w * h; at++)
			worst = fmax(worst, fabs(((float *)t.data)[at] -
						 slow(&p, at / (w * h), at % w, at / w % h, w, h)));
		CHECK(worst < 1e-4);
		arena_free(&a);
	}
}

TEST(resizing_by_hand)
{
	uint8_t rgb[] = {0, 0, 0, 100, 100, 100};
	struct arena a = {0};
	struct picture p = {2, 1, rgb};
	struct tensor t = blank(&a, DT_F64, "1x1x1x4");
	CHECK_OK(picture_put(&p, &(struct picture_opts){0}, &t));
	for (int i = 0; i < 4; i++)
		CHECK(fabs(((double *)t.data)[i] - (double[]){0, 25, 75, 100}[i]) < 1e-9);
	struct tensor one = blank(&a, DT_U8, "1x1x1x1");
	rgb[0] = rgb[1] = rgb[2] = 2; /* 51 between them */
	CHECK_OK(picture_put(&p, &(struct picture_opts){0}, &one));
	CHECK(*(uint8_t *)one.data == 51);
	struct tensor vector = blank(&a, DT_F32, "1x48"); /* as of a robot's joints */
	CHECK_FAILS(picture_put(&p, &(struct picture_opts){0}, &vector), E_USAGE,
		    "does not hold one picture");
	arena_free(&a);
}

TEST(the_middle_after_resizing)
{
	struct arena a = {0};
	struct picture p = noise(&a, 10, 8, 3);
	struct tensor t = blank(&a, DT_F32, "1x3x4x4");
	CHECK_OK(picture_put(&p, &(struct picture_opts){.w = -1, .h = -1}, &t)); /* from (3, 2) */
	for (int i = 0; i < 48; i++)
		CHECK(((float *)t.data)[i] == p.rgb[((i / 4 % 4 + 2) * 10 + i % 4 + 3) * 3 + i / 16]);
	CHECK_OK(picture_put(&p, &(struct picture_opts){.w = 6, .h = 5}, &t)); /* from (1, 0) of 6x5 */
	for (int i = 0; i < 48; i++)
		CHECK(fabs(((float *)t.data)[i] - slow(&p, i / 16, i % 4 + 1, i / 4 % 4, 6, 5)) < 1e-4);
	CHECK_FAILS(picture_put(&p, &(struct picture_opts){.w = 3, .h = 9}, &t), E_USAGE, "4x4");
	struct tensor wide = blank(&a, DT_F32, "1x3x4x11");
	CHECK_FAILS(picture_put(&p, &(struct picture_opts){.w = -1, .h = -1}, &wide), E_USAGE,
		    "--resize none");
	arena_free(&a);
}

TEST(mean_scale_layout_and_channels)
{
	struct arena a = {0};
	struct picture p = noise(&a, 3, 2, 7);
	struct picture_opts o = {.nmean = 3, .nscale = 3, .mean = {10, 20, 30}, .scale = {0.5, 0.25, 2}};
	for (int bgr = 0; bgr < 2; bgr++)
		for (int last = 0; last < 2; last++) {
			struct tensor t = blank(&a, DT_F32, last ? "1x2x3x3" : "3x2x3");
			o.layout = last ? LAYOUT_NHWC : LAYOUT_NCHW;
			o.channels = bgr ? CHANNELS_BGR : CHANNELS_RGB;
			CHECK_OK(picture_put(&p, &o, &t));
			for (int i = 0; i < 18; i++) {
				int c = i % 3, from = bgr ? 2 - c : c, at = i / 3;
				double want = (p.rgb[at * 3 + from] - o.mean[from]) * o.scale[from];
				CHECK(((float *)t.data)[last ? at * 3 + c : c * 6 + at] == (float)want);
			}
		}
	struct tensor gray = blank(&a, DT_F32, "1x1x2x3"), by_shape = blank(&a, DT_F32, "1x2x3x1");
	struct picture_opts g = {
	    .nmean = 1, .mean = {100}, .nscale = 1, .scale = {0.1}, .channels = CHANNELS_GRAY};
	CHECK_OK(picture_put(&p, &g, &gray));
	CHECK_OK(picture_put(&p, &g, &by_shape));
	for (int i = 0; i < 6; i++) {
		double luma = 0.299 * p.rgb[3 * i] + 0.587 * p.rgb[3 * i + 1] + 0.114 * p.rgb[3 * i + 2];
		CHECK(fabs(((float *)gray.data)[i] - (luma - 100) * 0.1) < 1e-5);
		CHECK(((float *)gray.data)[i] == ((float *)by_shape.data)[i]);
	}
	o.layout = LAYOUT_BY_SHAPE;
	CHECK_FAILS(picture_put(&p, &o, &gray), E_USAGE, "--channels");
	o.channels = CHANNELS_BY_SHAPE;
	CHECK_FAILS(picture_put(&p, &o, &gray), E_USAGE, "one value");
	struct tensor none = blank(&a, DT_F32, "2x3x4x4"), four = blank(&a, DT_F32, "1x4x8x8");
	CHECK_FAILS(picture_put(&p, &g, &none), E_USAGE, "2x3x4x4");
	CHECK_FAILS(picture_put(&p, &g, &four), E_USAGE, "does not hold one picture");
	arena_free(&a);
}

TEST(integers_are_rounded_and_saturate)
{
	uint8_t rgb[] = {0, 1, 255};
	struct arena a = {0};
	struct picture p = {1, 1, rgb};
	struct tensor t = blank(&a, DT_I8, "1x3x1x1");
	struct picture_opts o = {.nmean = 1, .mean = {0.4}, .nscale = 0};
	CHECK_OK(picture_put(&p, &o, &t));
	int8_t *v = t.data;
	CHECK(v[0] == 0 && v[1] == 1 && v[2] == 127);
	arena_free(&a);
}

/* EXIF in both orders of bytes, behind another segment; nothing is read beyond the end of a file that is cut.
 */
TEST(orientation_of_exif)
{
	static const uint8_t big[] = {0xff, 0xd8, 0xff, 0xe0, 0,   4, 1,    2,   0xff, 0xff, 0xe1, 0,
				      0x22, 'E',  'x',  'i',  'f', 0, 0,    'M', 'M',  0,    42,   0,
				      0,    0,    8,    0,    1,   1, 0x12, 0,   3,    0,    0,    0,
				      1,    0,    8,    0,    0,   0, 0,    0,   0};
	static const uint8_t little[] = {0xff, 0xd8, 0xff, 0xe1, 0, 0x22, 'E', 'x', 'i', 'f',  0, 0, 'I',
					 'I',  42,   0,    8,    0, 0,    0,   1,   0,   0x12, 1, 3, 0,
					 1,    0,    0,    0,    3, 0,    0,   0,   0,   0,    0, 0};
	CHECK(picture_orientation(&(struct blob){big, sizeof big}) == 8);
	CHECK(picture_orientation(&(struct blob){little, sizeof little}) == 3);
	for (size_t n = 0; n < sizeof little - 4; n++) {
		uint8_t *cut = malloc(n + 1); /* so that a sanitizer sees what is read beyond it */
		memcpy(cut, little, n);
		CHECK(picture_orientation(&(struct blob){cut, n}) == 0);
		free(cut);
	}
	uint8_t wrong[sizeof little];
	memcpy(wrong, little, sizeof wrong);
	wrong[30] = 9;
	CHECK(picture_orientation(&(struct blob){wrong, sizeof wrong}) == 0);
	memset(wrong + 16, 0xff, 4); /* the directory lies beyond the end */
	CHECK(picture_orientation(&(struct blob){wrong, sizeof wrong}) == 0);
}

/* A PNG has its EXIF in a chunk before or behind the pixels. */
TEST(orientation_of_a_png)
{
	static const uint8_t exif[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
				       3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0, 0,    0};
	struct arena a = {0};
	struct buf b = {0};
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &b);
	for (int i = 0; i < 3; i++) { /* before, behind, and one that is none */
		uint8_t chunk[12 + sizeof exif] = {0};
		struct buf with = {0};
		struct picture p = {0};
		size_t at = i == 0 ? 33 : b.n - 12; /* behind IHDR, before IEND */
		put_big(chunk, sizeof exif, 4);
		memcpy(chunk + 4, "eXIf", 4);
		memcpy(chunk + 8, exif, sizeof exif);
		chunk[8 + 19] = i == 2 ? 77 : 6;
		put_big(chunk + 8 + sizeof exif, png_crc(chunk + 4, 4 + sizeof exif), 4);
		buf_add(&with, b.p, at);
		buf_add(&with, chunk, sizeof chunk);
		buf_add(&with, b.p + at, b.n - at);
		struct blob file = blob_of(&with);
		CHECK_OK(picture_decode(&a, &file, &p));
		CHECK(p.w == 9 && p.h == 7 && p.orientation == (i == 2 ? 0 : 6));
		buf_free(&with);
	}
	buf_free(&b);
	arena_free(&a);
}

TEST_MAIN
