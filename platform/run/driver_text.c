/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/driver_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void driver_text_copy(char *out, size_t room, const char *text, size_t n)
{
	size_t at = 0;
	bool gap = false;
	for (size_t i = 0; i < n && text[i] && at + gap + 1 < room; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c <= ' ' || c == 0x7f) {
			gap = at > 0;
			continue;
		}
		if (gap)
			out[at++] = ' ';
		gap = false;
		out[at++] = c < 0x7f ? (char)c : '?';
	}
	out[at] = 0;
}

/* Nothing is written before it was read. */
void driver_text_clean(char *text, size_t room)
{
	driver_text_copy(text, room, text, room);
}

void driver_text_word(char *out, size_t room, const char *text)
{
	size_t n = 0;
	for (; text[n] && n + 1 < room; n++)
		out[n] = isalnum((unsigned char)text[n]) || strchr("()-.@+", text[n]) ? text[n] : '_';
	out[n] = 0;
}

void driver_flag_clean(bool *flag)
{
	unsigned char byte;
	_Static_assert(sizeof(bool) == 1, "a flag is a byte");
	memcpy(&byte, flag, sizeof byte);
	*flag = byte != 0;
}

const char *driver_devices(const char *kind, int n, char out[64])
{
	if (n > 1)
		snprintf(out, 64, "they are %s:0 to %s:%d", kind, kind, n - 1);
	else if (n == 1)
		snprintf(out, 64, "the only one is %s:0", kind);
	else
		snprintf(out, 64, "none was found");
	return out;
}
