/* SPDX-License-Identifier: Apache-2.0 */
/* Batches for benchmarks of the fleet: each has BATCH_RECORDS records that no other batch has. */
#ifndef TOOLS_BENCH_BATCH_H
#define TOOLS_BENCH_BATCH_H

#include "agent/sync/batch.h"
#include "search/job.h"
#include <stdlib.h>

#define BENCH_CLASS "0123456789abcdef0123456789abcdef"

static inline const char *bench_line(struct arena *a, int i, struct key target)
{
	struct buf b = {0};
	char key[33];
	struct rec r = {
	    .kind = REC_BEST,
	    .target = "soc x86-64-v3 8",
	    .target_key = target,
	    .device = "cpu",
	    .threads = 2,
	    .emitter = "llvm-19/1",
	    .cand = "lane=n:8",
	    .label = "matmul",
	    .meas = {.runs = 9, .min_ns = 1000, .median_ns = 1000 + i, .spread_ns = 9, .threads = 2}};
	r.task_text = arena_printf(
	    a,
	    "task syms=0\noperand A in f32 [%d,40] plain\noperand B const f32 [40,32] plain\n"
	    "operand C out f32 [%d,32] plain\nstage m:%d n:32 | k:40\nread A [m,k]\nread B [k,n]\n"
	    "body r0 r1 mul\nsum\nwrite C [m,n]\n",
	    14 + i, 14 + i, 14 + i);
	r.task = hash_text(r.task_text);
	rec_text(&r, &b);
	key_text(rec_key(&r), key);
	json_t *o = json_pack("{ss ss ss}", "type", "rec", "key", key, "text", buf_str(&b));
	char *text = json_dumps(o, JSON_COMPACT);
	const char *kept = arena_strdup(a, text);
	free(text);
	json_decref(o);
	buf_free(&b);
	return kept;
}

/* Makes batch i of this board, signed. name (or NULL): the batch's name in hex. */
static inline int bench_batch(const struct private_key *board, int i, struct buf *doc, char name[65])
{
	struct arena a = {0};
	struct buf payload = {0};
	struct key target;
	struct public_key public;
	struct sha256 hash;
	char id[KEY_ID_HEX + 1];
	const char *line[BATCH_RECORDS];
	int rc = key_parse(BENCH_CLASS, &target);
	for (int k = 0; k < BATCH_RECORDS; k++)
		line[k] = bench_line(&a, i * BATCH_RECORDS + k, target);
	private_key_public(board, &public);
	public_key_id(&public, id);
	if (rc >= 0)
		rc = batch_print(BENCH_CLASS, id, "bench", line, BATCH_RECORDS, &payload);
	if (rc >= 0)
		rc = signed_write("records", payload.p, payload.n, &board, 1, doc);
	if (rc >= 0 && name && (rc = crypto_sha256(payload.p, payload.n, &hash)) >= 0)
		hex_write(hash.b, sizeof hash.b, name);
	buf_free(&payload);
	arena_free(&a);
	return rc;
}

#endif
