/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/picture.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads "0.5" or "1/255"; NULL: it is neither, or not finite. *out is then undefined. */
static const char *read_number(const char *text, double *out)
{
	char *end;
	double under = 1;
	*out = strtod(text, &end);
	if (end == text)
		return NULL;
	if (*end == '/') {
		const char *start = end + 1;
		under = strtod(start, &end);
		if (end == start)
			return NULL;
	}
	*out /= under;
	return isfinite(*out) ? end : NULL;
}

/* Reads one number or three, which are separated by commas. Returns how many; 0: the option is not given. */
static int read_numbers(const struct args *a, const char *name, const char *example, double out[3])
{
	const char *text = arg_str(a, name, NULL), *p = text;
	int n = 0;
	if (!text)
		return 0;
	while (p && n < 3) {
		p = read_number(p, &out[n++]);
		if (!p || *p != ',' || n == 3)
			break;
		p++;
	}
	if (!p || *p || (n != 1 && n != 3))
		return fail(E_USAGE, "--%s %s: give one number or three, all finite, as in --%s %s", name,
			    text, name, example);
	return n;
}

/* Finds the value of an option among words; 0: the option is not given. words[0] is unused. */
static int read_choice(const struct args *a, const char *name, const char *const *words, int n)
{
	const char *text = arg_str(a, name, NULL);
	char known[64] = "";
	if (!text)
		return 0;
	for (int i = 1; i < n; i++) {
		size_t at = strlen(known);
		snprintf(known + at, sizeof known - at, "%s%s", i > 1 ? ", " : "", words[i]);
		if (!strcmp(text, words[i]))
			return i;
	}
	return fail(E_USAGE, "--%s %s is not possible; it takes one of %s", name, text, known);
}

static int read_size(const struct args *a, int *w, int *h)
{
	const char *text = arg_str(a, "resize", NULL);
	int end = 0;
	*w = *h = text && !strcmp(text, "none") ? -1 : 0;
	if (!text || *w < 0)
		return E_OK;
	if (strlen(text) > 16 || !isdigit((unsigned char)*text) ||
	    sscanf(text, "%5dx%5d%n", w, h, &end) != 2 || text[end] || *w < 1 || *h < 1 ||
	    *w > PICTURE_MOST_SIDE || *h > PICTURE_MOST_SIDE)
		return fail(E_USAGE,
			    "--resize %s is not possible; it takes WIDTHxHEIGHT, each 1 to %d, or none", text,
			    PICTURE_MOST_SIDE);
	return E_OK;
}

const char *picture_opts_given(const struct args *a)
{
	static const struct opt opts[] = {OPT_PICTURE};
	for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
		if (arg_given(a, opts[i].name))
			return opts[i].name;
	return NULL;
}

int picture_opts_read(const struct args *a, struct picture_opts *out)
{
	static const char *const layouts[] = {"", "nchw", "nhwc"}, *const orders[] = {"", "rgb", "bgr",
										      "gray"};
	*out = (struct picture_opts){0};
	int rc = read_size(a, &out->w, &out->h);
	if (rc >= 0)
		rc = out->nmean = read_numbers(a, "mean", "123.675,116.28,103.53", out->mean);
	if (rc >= 0)
		rc = out->nscale = read_numbers(a, "scale", "1/255 or 1/58.4,1/57.1,1/57.4", out->scale);
	for (int i = 0; rc >= 0 && i < out->nscale; i++)
		if (out->scale[i] == 0)
			return fail(E_USAGE, "--scale 0 makes all pixels the same");
	int layout = rc < 0 ? rc : read_choice(a, "layout", layouts, 3);
	int channels = layout < 0 ? layout : read_choice(a, "channels", orders, 4);
	if (channels < 0)
		return channels;
	out->layout = (enum picture_layout)layout;
	out->channels = (enum picture_channels)channels;
	return E_OK;
}
