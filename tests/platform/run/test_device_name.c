/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices: generated ones are read as they would be printed, and as the table of devices has them.
 */
#include "platform/run/dev.h"
#include "tests/lib/device_names.h"
#include "tests/lib/test.h"

TEST(kinds_are_those_of_the_table)
{
	int own = 0, kinds = 0;
	char name[32];
	for (; device_kinds[kinds]; kinds++) {
		const struct dev *d = dev_find(device_kinds[kinds]);
		snprintf(name, sizeof name, "%s:0", device_kinds[kinds]);
		CHECK(d && d->own && dev_find(name) == d && device_is_named(name));
	}
	for (const struct dev *const *d = dev_table; *d; d++) {
		snprintf(name, sizeof name, "%s:0", (*d)->name);
		own += (*d)->own != NULL;
		CHECK(device_is_named(name) == ((*d)->own != NULL));
		CHECK(!device_is_named((*d)->name));
	}
	CHECK(own == kinds);
}

TEST(generated_names)
{
	struct rng r;
	int good = 0;
	rng_seed(&r, 3);
	for (int i = 0; i < 20000; i++) {
		char name[32], again[48];
		int number;
		device_name_draw(&r, name);
		bool is = device_name_is_printed(name);
		size_t kind = device_name_read(name, &number);
		if (device_is_named(name) != is)
			printf("'%s'\n", name);
		CHECK(device_is_named(name) == is);
		if (strchr(name, ':'))
			CHECK(!dev_find(name) == !is);
		if (kind && number >= 0)
			snprintf(again, sizeof again, "%.*s:%d", (int)kind, name, number);
		else
			snprintf(again, sizeof again, "%.*s", (int)kind, name);
		CHECK(kind ? !strcmp(again, name) : !is);
		CHECK(dev_number(name) == (kind && number > 0 ? number : 0));
		good += is;
	}
	CHECK(good > 5000 && good < 15000);
}

TEST_MAIN
