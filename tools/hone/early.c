/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/early.h"

#include "tools/hone/table.h"

/* Appends why the search ended before its time was over; nothing: it did not, or nothing can be tuned. */
static void early_words(const struct tune_report *r, struct buf *b)
{
	static const char *const words[SEARCH_ENDS][2] = {
	    [SEARCH_ROOFLINE] = {"came within 3 % of its roofline when timed alone",
				 "came within 3 % of their rooflines when timed alone"},
	    [SEARCH_EXHAUSTED] = {"has no schedule left to try", "have no schedules left to try"},
	    [SEARCH_FAILED] = {"has no schedule that works", "have no schedules that work"},
	    [SEARCH_LATE] = {"needs longer builds than the rest of the box allows",
			     "need longer builds than the rest of the box allows"},
	    [SEARCH_DRY] = {"no longer gains anything", "no longer gain anything"}};
	for (int i = 0; i < SEARCH_ENDS && r->early; i++)
		if (r->ended[i] && words[i][0])
			buf_printf(b, "%s%d task%s %s", b->n ? ", " : "", r->ended[i], plural_s(r->ended[i]),
				   words[i][r->ended[i] > 1]);
}

void early_print(const struct tune_report *r)
{
	struct buf b = {0};
	early_words(r, &b);
	if (b.n)
		table_say("the search ended before the box: %s", buf_str(&b));
	buf_free(&b);
}

void early_turns(const struct tune_report *r, struct buf *out)
{
	struct buf why = {0};
	early_words(r, &why);
	if (r->no_turn && why.n)
		buf_printf(out, "%d of %d task%s had no turn", r->no_turn, r->tasks, plural_s(r->tasks));
	else if (r->no_turn)
		buf_printf(out, "the box ended before %d of %d task%s had a turn", r->no_turn, r->tasks,
			   plural_s(r->tasks));
	if (r->no_turn)
		buf_printf(out, ": %s",
			   r->untried == r->no_turn ? "no schedule of theirs was tried"
						    : "at most their default schedules were tried");
	buf_free(&why);
}

json_t *early_json(const struct tune_report *r)
{
	struct buf b = {0};
	early_words(r, &b);
	json_t *j = b.n ? json_text(buf_str(&b)) : json_null();
	buf_free(&b);
	return j;
}
