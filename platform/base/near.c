/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/near.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
	MOST_LETTERS = 31,
	LONG_WORD = 6, /* shorter words are like the beginning of too many names */
};

static int low(char c)
{
	return tolower((unsigned char)c);
}

struct distances {
	int at[MOST_LETTERS + 1][MOST_LETTERS + 1];
};

/* d[i][j]: the distance of the first i letters of a and the first j of b. */
static void fill_distances(const char *a, int la, const char *b, int lb, struct distances *d)
{
	for (int i = 0; i <= la; i++)
		for (int j = 0; j <= lb; j++) {
			int best = i + j;
			if (i && j) {
				best = d->at[i - 1][j - 1] + (low(a[i - 1]) != low(b[j - 1]));
				best = d->at[i - 1][j] + 1 < best ? d->at[i - 1][j] + 1 : best;
				best = d->at[i][j - 1] + 1 < best ? d->at[i][j - 1] + 1 : best;
			}
			if (i > 1 && j > 1 && low(a[i - 1]) == low(b[j - 2]) &&
			    low(a[i - 2]) == low(b[j - 1]) && d->at[i - 2][j - 2] + 1 < best)
				best = d->at[i - 2][j - 2] + 1;
			d->at[i][j] = best;
		}
}

int near_distance(const char *a, const char *b)
{
	int la = (int)strnlen(a, MOST_LETTERS), lb = (int)strnlen(b, MOST_LETTERS);
	struct distances d;
	fill_distances(a, la, b, lb, &d);
	return d.at[la][lb];
}

/* The distance of the word and the beginning of the name that is most like it. */
static int distance_of_beginning(const char *word, const char *name)
{
	int lw = (int)strnlen(word, MOST_LETTERS), ln = (int)strnlen(name, MOST_LETTERS), least = lw;
	struct distances d;
	fill_distances(word, lw, name, ln, &d);
	for (int j = 0; j <= ln; j++)
		least = d.at[lw][j] < least ? d.at[lw][j] : least;
	return least;
}

/* Most mistakes of a suggestion for a word of this length; with more of them, other words are as near. */
static int most_mistakes(int letters)
{
	return letters < 6 ? 1 : letters / 3;
}

void near_begin(struct near *n, const char *word)
{
	*n = (struct near){.word = word, .least = most_mistakes((int)strnlen(word, MOST_LETTERS)) + 1};
}

void near_add(struct near *n, const char *name)
{
	size_t len = strlen(n->word);
	int d = near_distance(n->word, name);
	bool begins = len > 1 && !strncasecmp(n->word, name, len);
	if (d > 1 && begins)
		d = 1;
	if (d >= (int)(len > strlen(name) ? len : strlen(name)))
		return; /* every letter differs */
	if (len >= LONG_WORD && distance_of_beginning(n->word, name) + 1 < d)
		d = distance_of_beginning(n->word, name) + 1;
	if (d < n->least || (d == n->least && begins && !n->begins)) {
		n->least = d;
		n->best = name;
		n->begins = begins;
	}
}
