/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a fleet's database the tables of version 1. */
#ifndef TESTS_SCHEMA_V1_H
#define TESTS_SCHEMA_V1_H

#include "tests/lib/test.h"
#include "tools/fleet/db.h"

static inline void schema_v1(struct db_conn *c)
{
	static const char *const undo[] = {"DROP TABLE left_out",
					   "DROP INDEX boards_day",
					   "DROP INDEX words_size",
					   "ALTER TABLE boards DROP COLUMN sent_bytes",
					   "ALTER TABLE boards DROP COLUMN over_day",
					   "ALTER TABLE words DROP COLUMN bytes",
					   "ALTER TABLE classes DROP COLUMN revoked",
					   "ALTER TABLE snapshots DROP COLUMN placed",
					   "ALTER TABLE blobs DROP COLUMN placed",
					   "CREATE INDEX words_board ON words (board)",
					   "UPDATE settings SET value = '1' WHERE name = 'schema'"};
	for (size_t i = 0; i < sizeof undo / sizeof *undo; i++)
		CHECK_OK(db_exec(c, undo[i], NULL, 0, NULL, NULL));
}

#endif
