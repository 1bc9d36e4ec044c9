/* SPDX-License-Identifier: Apache-2.0 */
/* Cryptographic operations per second of one core of a fleet's server, or of a board: bench_crypto [SECONDS
 * each, default 2]. The last row is the receiver's work for a batch: signature, hash, and reading and
 * checking each of 64 records. */
#include "agent/sync/batch.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "search/job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1 << 20, MOST_THREADS = 16 };

static struct private_key *key;
static struct public_key public;
static struct sha256 hash;
static struct signature sig;
static struct buf doc;
static char text[TEXT];

static int do_sign(void)
{
	struct signature s;
	return crypto_sign(key, &hash, &s);
}

static int do_verify(void)
{
	return crypto_verified(&public, &hash, &sig) ? E_OK : fail(E_WRONG, "a signature is refused");
}

static int do_hash(void)
{
	struct sha256 h;
	return crypto_sha256(text, sizeof text, &h);
}

static int do_batch(void)
{
	struct arena a = {0};
	struct batch *b = ARENA_NEW(&a, struct batch);
	struct signed_doc d;
	int rc = signed_parse(doc.p, doc.n, "records", &d);
	if (rc >= 0)
		rc = signed_check(&d, &public, 1, 1, NULL);
	if (rc >= 0)
		rc = batch_parse(d.payload.p, d.payload.n, &a, b);
	arena_free(&a);
	return rc;
}

static const struct row {
	const char *name, *unit;
	int (*once)(void);
	int each; /* units per call */
} rows[] = {{"sign", "signatures", do_sign, 1},
	    {"verify", "signatures", do_verify, 1},
	    {"sha-256", "MiB", do_hash, 1},
	    {"batch of 64", "records", do_batch, BATCH_RECORDS}};

struct run {
	const struct row *row;
	int64_t until;
	long count;
	int rc;
};

static void *run(void *arg)
{
	struct run *r = arg;
	while (r->rc >= 0 && clock_now(&clock_real) < r->until) {
		r->rc = r->row->once();
		r->count++;
	}
	if (r->rc < 0)
		log_error("%s: %s", r->row->name, err_text());
	return NULL;
}

static int measure(const struct row *row, int threads, double seconds)
{
	pthread_t t[MOST_THREADS];
	struct run r[MOST_THREADS];
	long count = 0;
	int rc = E_OK;
	int64_t start = clock_now(&clock_real);
	for (int i = 0; i < threads; i++) {
		r[i] = (struct run){row, start + (int64_t)(seconds * NS_PER_S), 0, E_OK};
		if (pthread_create(&t[i], NULL, run, &r[i]))
			abort();
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i], NULL);
		count += r[i].count;
		rc = r[i].rc < 0 ? r[i].rc : rc;
	}
	double took_s = (double)(clock_now(&clock_real) - start) / NS_PER_S;
	printf("%-12s  %d thread%s  %10.0f %s/s\n", row->name, threads, threads == 1 ? " " : "s",
	       (double)count * row->each / took_s, row->unit);
	return rc;
}

/* The line of a record, in the form in which a board sends it. */
static char *line_of(struct cache *c, int i)
{
	struct arena a = {0};
	struct rec r = {.kind = REC_BEST,
			.target = "soc x86-64-v3 8",
			.target_key = {1, 2},
			.device = "cpu",
			.threads = 2,
			.emitter = "llvm-19/1",
			.cand = "lane=n:8 tile=m:6 | block=k:64",
			.meas = {.runs = 9, .min_ns = 1000, .median_ns = 1100, .threads = 2},
			.label = "matmul"};
	r.task_text =
	    arena_printf(&a,
			 "task syms=0\noperand A in f32 [%d,40] plain\noperand B const f32 [40,32] plain\n"
			 "operand C out f32 [%d,32] plain\nstage m:%d n:32 | k:40\nread A [m,k]\n"
			 "read B [k,n]\nbody r0 r1 mul\nsum\nwrite C [m,n]\n",
			 14 + i, 14 + i, 14 + i);
	r.task = hash_text(r.task_text);
	json_t *j;
	bool made = cache_put_rec(c, &r) >= 0 && exchange_json(c, CACHE_REC, rec_key(&r), &j) > 0;
	char *line = made ? json_dumps(j, JSON_COMPACT) : NULL;
	if (made)
		json_decref(j);
	arena_free(&a);
	return line;
}

static int make_doc(void)
{
	struct cache *c;
	struct buf payload = {0};
	char *line[BATCH_RECORDS] = {0};
	const struct private_key *by[] = {key};
	char cls[33], id[KEY_ID_HEX + 1];
	int rc = cache_open_with(&c, "/nowhere", CACHE_MEMORY, 0, &(struct cache_options){.seeds = ""});
	if (rc < 0)
		return rc;
	for (int i = 0; i < BATCH_RECORDS && rc >= 0; i++)
		if (!(line[i] = line_of(c, i)))
			rc = fail(E_NOMEM, "no memory for a record");
	key_text((struct key){1, 2}, cls);
	public_key_id(&public, id);
	if (rc >= 0)
		rc = batch_print(cls, id, "soc", (const char *const *)line, BATCH_RECORDS, &payload);
	if (rc >= 0)
		rc = signed_write("records", payload.p, payload.n, by, 1, &doc);
	for (int i = 0; i < BATCH_RECORDS; i++)
		free(line[i]);
	buf_free(&payload);
	cache_close(c);
	return rc;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
	int rc = crypto_start();
	if (rc >= 0)
		rc = private_key_make(&key);
	if (rc >= 0) {
		private_key_public(key, &public);
		rc = crypto_sha256("x", 1, &hash);
	}
	if (rc >= 0)
		rc = crypto_sign(key, &hash, &sig);
	if (rc >= 0)
		rc = make_doc();
	for (int threads = 1; threads <= 2; threads++)
		for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rc >= 0; i++)
			rc = measure(&rows[i], threads, seconds);
	if (rc < 0)
		log_error("%s", err_text());
	private_key_free(key);
	buf_free(&doc);
	return rc < 0;
}
