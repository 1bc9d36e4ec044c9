/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/near.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { MOST_LETTERS = 31 };

static int low(char c)
{
	return tolower((unsigned char)c);
}

int near_distance(const char *a, const char *b)
{
	int la = (int)strnlen(a, MOST_LETTERS), lb = (int)strnlen(b, MOST_LETTERS);
	int d[MOST_LETTERS + 1][MOST_LETTERS + 1];
	for (int i = 0; i <= la; i++)
		for (int j = 0; j <= lb; j++) {
			int best = i + j;
			if (i && j) {
				best = d[i - 1][j - 1] + (low(a[i - 1]) != low(b[j - 1]));
				best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
				best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			}
			if (i > 1 && j > 1 && low(a[i - 1]) == low(b[j - 2]) &&
			    low(a[i - 2]) == low(b[j - 1]) && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[la][lb];
}

void near_begin(struct near *n, const char *word)
{
	*n = (struct near){.word = word, .least = (int)strnlen(word, MOST_LETTERS) / 3 + 2};
}

void near_add(struct near *n, const char *name)
{
	size_t len = strlen(n->word);
	int d = near_distance(n->word, name);
	bool begins = len > 1 && !strncasecmp(n->word, name, len);
	if (d > 1 && begins)
		d = 1;
	if (d < n->least || (d == n->least && begins && !n->begins)) {
		n->least = d;
		n->best = name;
		n->begins = begins;
	}
}
