/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/level.h"
#include "tests/lib/test.h"

#include <string.h>

/* Keys of former records hold 0 and 1. */
TEST(numbers_and_words_of_former_records)
{
	CHECK(LEVEL_FP32 == 0 && LEVEL_EXACT == 1);
	CHECK(!strcmp(level_word(LEVEL_FP32), "0") && !strcmp(level_word(LEVEL_EXACT), "1"));
	CHECK(!level_word(LEVELS) && !level_word(-1) && !level_name(LEVELS) && !level_name(-1));
}

TEST(names)
{
	enum level l = LEVEL_EXACT;
	for (int i = 0; i < LEVELS; i++)
		CHECK(level_parse(level_name(i), &l) >= 0 && (int)l == i);
	CHECK_FAILS(level_parse("FP32", &l), E_USAGE, "there are exact, fp32, w16, half, half-sum and int8");
	CHECK_FAILS(level_parse("", &l), E_USAGE, "no level ''");
}

/* Results of a level serve itself and all that allow more. */
TEST(lower_levels_serve)
{
	static const bool serves[LEVELS][LEVELS] = {
	    [LEVEL_EXACT] = {true, true, true, true, true, true},
	    [LEVEL_FP32] = {[LEVEL_FP32] = true,
			    [LEVEL_W16] = true,
			    [LEVEL_INT8] = true,
			    [LEVEL_HALF] = true,
			    [LEVEL_HALF_SUM] = true},
	    [LEVEL_W16] =
		{[LEVEL_W16] = true, [LEVEL_HALF] = true, [LEVEL_HALF_SUM] = true},
	    [LEVEL_INT8] = {[LEVEL_INT8] = true},
	    [LEVEL_HALF] = {[LEVEL_HALF] = true, [LEVEL_HALF_SUM] = true},
	    [LEVEL_HALF_SUM] = {[LEVEL_HALF_SUM] = true}};
	for (int of = 0; of < LEVELS; of++)
		for (int l = 0; l < LEVELS; l++)
			CHECK(level_serves((enum level)of, (enum level)l) == serves[of][l]);
	CHECK(!level_f16(LEVEL_FP32) && !level_f16(LEVEL_EXACT) && level_f16(LEVEL_W16) &&
	      level_f16(LEVEL_HALF));
	CHECK(!level_f16(LEVEL_INT8)); /* the error that was asked for counts quantising alone */
	for (int l = 0; l < LEVELS; l++) {
		CHECK(level_bf16((enum level)l) == (l == LEVEL_HALF || l == LEVEL_HALF_SUM));
		CHECK(level_sums_f16((enum level)l) == (l == LEVEL_HALF_SUM));
	}
	CHECK(level_f32(LEVEL_W16) == LEVEL_FP32 && level_f32(LEVEL_EXACT) == LEVEL_EXACT);
	CHECK(level_below(LEVEL_W16) == LEVEL_FP32 && level_below(LEVEL_EXACT) < 0);
}

TEST_MAIN
