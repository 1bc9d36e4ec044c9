/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of tests/sh/boot.sh: models for the emulated board, and whether a cache that lay on its
 *disk when the power was cut is healthy.
 *
 * boots net N MODEL INPUT: writes small model N (ONNX), and an input of it (.npy)
 * boots list CACHE: prints what CACHE has, a line for each record in the order in which they were written:
 *	generation of its batch (0: the batch did not end), type, key, CRC of the payload, 1 if it is a record
 *	whose code is there; of a forgotten record (type 4): the type that was forgotten instead of the CRC
 * boots judge CACHE LIST GENERATION: whether CACHE has all of LIST, as it is or newer, and at least
 *GENERATION boots cut BASE LOG ACKS LIST IMAGE CUTS SCRIPT: makes IMAGE as CUTS power cuts may have left it
 *	(tests/lib/block_log.h), runs SCRIPT, which unpacks the cache of IMAGE into IMAGE.d/cache, and
 *compares that with what was acknowledged by then, and with LIST, of the cache at the end of LOG */
#include "agent/cache/lookup.h"
#include "agent/cache/segment.h"
#include "kernels/onnx/import.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "tests/lib/block_log.h"
#include "tools/hone/zoo.h"

#include <dirent.h>
#include <inttypes.h>

enum { MOST = 20000, SEGMENTS = 64 };

struct line {
	uint64_t generation; /* of its batch; 0: the batch did not end */
	int type;
	struct key key;
	uint32_t crc; /* CACHE_FORGET: the type that was forgotten */
	int code;
};

struct list {
	struct line line[MOST];
	int n;
};

static const struct cache_options options = {.seeds = ""};

/* ---- models ---- */

static int write_input(const char *path, int channels, int size)
{
	char head[128];
	int n = snprintf(head, sizeof head,
			 "{'descr': '<f4', 'fortran_order': False, 'shape': (1, %d, %d, %d), }", channels,
			 size, size);
	FILE *f = fopen(path, "wb");
	if (!f)
		return fail(E_IO, "cannot write %s", path);
	fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
	fprintf(f, "%-117s\n", n < 118 ? head : "");
	for (int i = 0; i < channels * size * size; i++)
		fwrite(&(float){(float)(i * 37 % 101) / 50 - 1}, sizeof(float), 1, f);
	return fclose(f) == 0 ? E_OK : fail(E_IO, "cannot write %s", path);
}

static int write_net(int i, const char *path, const char *input)
{
	enum { SIZE = 8 };
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	struct zoo z = {.g = g, .opset = 17};
	g->name = "small";
	g->arena = a;
	rng_seed(&z.rng, (uint64_t)i);
	int channels = 4 + 2 * (i % 4);
	struct fmap x = zoo_input(&z, "x", channels, SIZE, SIZE);
	x = zoo_conv(&z, x, (struct zoo_conv){8 + 2 * (i / 4), 3, 1, 1, .act = ACT_RELU6});
	x = zoo_conv(&z, x, (struct zoo_conv){16, 1, 1, 0, .act = ACT_RELU6});
	zoo_output(&z, x.value, "y");
	int rc = z.rc < 0 ? z.rc : export_file(g, path);
	graph_free(g);
	return rc < 0 ? rc : write_input(input, channels, SIZE);
}

/* ---- what a cache has ---- */

struct walk {
	struct list *to;
	int from; /* first line of the batch that has not ended */
};

static int walk_record(void *ctx, const struct head *h, const uint8_t *payload, int64_t at)
{
	struct walk *w = ctx;
	(void)at;
	if (h->type == CACHE_MARK) {
		struct cur c = {.p = payload, .n = h->n};
		uint64_t generation = cur_u64(&c);
		for (; w->from < w->to->n; w->from++)
			w->to->line[w->from].generation = generation;
		return 0;
	}
	if (w->to->n == MOST)
		return fail(E_UNSUPPORTED, "more than %d records", MOST);
	w->to->line[w->to->n++] =
	    (struct line){.type = h->type,
			  .key = h->key,
			  .crc = h->type == CACHE_FORGET && h->n ? payload[0] : crc32c(0, payload, h->n)};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int walk(const char *dir, struct list *to)
{
	static char name[SEGMENTS][256];
	int n = 0, rc = 0;
	DIR *d = opendir(dir);
	to->n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		if (strstr(e->d_name, ".seg") && n < SEGMENTS)
			snprintf(name[n++], sizeof name[0], "%s", e->d_name);
	if (d)
		closedir(d);
	qsort(name, (size_t)n, sizeof name[0], by_name);
	for (int i = 0; i < n && rc >= 0; i++) {
		struct seg s;
		struct walk w = {to, to->n};
		if (seg_open(dir, name[i], false, &s) < 0)
			continue;
		rc = seg_scan(&s, true, walk_record, &w);
		seg_close(&s);
	}
	return rc;
}

struct codes {
	struct cache *c;
	struct list *to;
};

/* Notes that the last line of the record has code. */
static int note_code(void *ctx, const struct rec *r)
{
	struct codes *k = ctx;
	struct key key = rec_key(r);
	for (int i = k->to->n - 1; i >= 0; i--)
		if (k->to->line[i].type == CACHE_REC && key_equal(k->to->line[i].key, key)) {
			k->to->line[i].code = cache_has_code(k->c, NULL, r);
			break;
		}
	return 0;
}

static int list_of(const char *dir, struct list *to)
{
	struct arena a = {0};
	struct cache *c;
	int rc = walk(dir, to);
	if (rc >= 0)
		rc = cache_open_with(&c, dir, CACHE_READ, 0, &options);
	if (rc < 0)
		return rc;
	rc = cache_each_rec(c, &a, note_code, &(struct codes){c, to});
	cache_close(c);
	arena_free(&a);
	return rc;
}

static int print_list(const char *dir)
{
	static struct list l;
	int rc = list_of(dir, &l);
	for (int i = 0; i < l.n && rc >= 0; i++)
		printf("%" PRIu64 " %d %016" PRIx64 "%016" PRIx64 " %08x %d\n", l.line[i].generation,
		       l.line[i].type, l.line[i].key.hi, l.line[i].key.lo, (unsigned)l.line[i].crc,
		       l.line[i].code);
	return rc;
}

static int read_list(const char *path, struct list *to)
{
	FILE *f = fopen(path, "r");
	struct line l = {0};
	unsigned crc;
	to->n = 0;
	if (!f)
		return fail(E_NOTFOUND, "cannot read %s", path);
	while (to->n < MOST && fscanf(f, "%" SCNu64 " %d %16" SCNx64 "%16" SCNx64 " %x %d", &l.generation,
				      &l.type, &l.key.hi, &l.key.lo, &crc, &l.code) == 6) {
		l.crc = crc;
		to->line[to->n++] = l;
	}
	fclose(f);
	return E_OK;
}

/* ---- whether a cache is healthy ---- */

struct found {
	int refused, behind, lost, wrong, codeless; /* what is missing */
	int records;                                /* that had to be there */
};

/* A later box may replace or forget these records, but never loses them. */
static bool lasts(int type)
{
	return type == CACHE_REC || type == CACHE_CHOICES || type == CACHE_HISTORY || type == CACHE_GAIN;
}

static bool same(const struct line *a, const struct line *b)
{
	return key_equal(a->key, b->key) &&
	       (a->type == b->type || (b->type == CACHE_FORGET && (int)b->crc == a->type));
}

/* Whether a later line of the list up to a generation replaces line i. */
static bool replaced(const struct list *want, int i, uint64_t generation)
{
	for (int j = i + 1; j < want->n; j++)
		if (same(&want->line[i], &want->line[j]) && want->line[j].generation &&
		    want->line[j].generation <= generation)
			return true;
	return false;
}

/* Whether the cache has line i, or one of the list that came later. */
static bool is_known(const struct list *want, int i, uint32_t crc)
{
	for (int j = i; j < want->n; j++)
		if (same(&want->line[i], &want->line[j]) && want->line[j].type != CACHE_FORGET &&
		    want->line[j].crc == crc)
			return true;
	return false;
}

/* whole: the list has all that was ever written, so that nothing else may be in the cache. */
static void judge_line(struct cache *c, const struct list *is, const struct list *want, int i, bool whole,
		       struct found *f)
{
	const struct line *w = &want->line[i];
	struct arena a = {0};
	struct blob b;
	f->records++;
	if (cache_get(c, w->type, w->key, &a, &b) < 0) {
		bool forgotten = false;
		for (int j = 0; j < is->n; j++)
			forgotten |= is->line[j].type == CACHE_FORGET && same(w, &is->line[j]);
		f->lost += !forgotten;
	} else {
		uint32_t crc = crc32c(0, b.p, b.n);
		f->wrong += whole && !is_known(want, i, crc);
		for (int j = is->n - 1; j >= 0 && w->code; j--)
			if (same(w, &is->line[j])) {
				f->codeless += is->line[j].crc == w->crc && !is->line[j].code;
				break;
			}
	}
	arena_free(&a);
}

/* Compares what the cache has with the list, as far as it was acknowledged. */
static void judge(const char *dir, const struct list *want, uint64_t acked, bool whole, struct found *f)
{
	static struct list is;
	struct cache *c;
	if (list_of(dir, &is) < 0 || cache_open_with(&c, dir, CACHE_READ, 0, &options) < 0) {
		f->refused++;
		return;
	}
	f->behind += cache_generation(c) < acked;
	for (int i = 0; i < want->n; i++) {
		const struct line *w = &want->line[i];
		if (lasts(w->type) && w->generation && (!whole || w->generation <= acked) &&
		    !replaced(want, i, whole ? acked : UINT64_MAX))
			judge_line(c, &is, want, i, whole, f);
	}
	cache_close(c);
}

static bool healthy(const struct found *f)
{
	return !(f->refused || f->behind || f->lost || f->wrong || f->codeless);
}

static void print_found(const struct found *f)
{
	printf("%d caches refused, %d older than acknowledged, %d of %d records lost, %d wrong, %d without "
	       "their code\n",
	       f->refused, f->behind, f->lost, f->records, f->wrong, f->codeless);
}

static int judge_one(const char *dir, const char *list, const char *generation)
{
	static struct list want;
	struct found f = {0};
	int rc = read_list(list, &want);
	if (rc < 0)
		return rc;
	judge(dir, &want, strtoull(generation, NULL, 10), false, &f);
	print_found(&f);
	return healthy(&f) ? E_OK : fail(E_WRONG, "the cache %s lost something", dir);
}

static int cut_one(const struct block_device *d, const struct list *want, int cut, const char *image_path,
		   const char *script, char *image, struct rng *r, struct found *f)
{
	char cmd[1024];
	memcpy(image, d->base.p, d->base.n);
	block_image(d, cut, r, image);
	int rc = block_write(image_path, image, d->base.n);
	if (rc < 0)
		return rc;
	snprintf(cmd, sizeof cmd, "%s %s", script, image_path);
	if (system(cmd) != 0)
		return 1;
	snprintf(cmd, sizeof cmd, "%s.d/cache", image_path);
	judge(cmd, want, (uint64_t)block_acked(d, cut), true, f);
	return E_OK;
}

static int cut(char **arg)
{
	static struct block_device d;
	static struct list want;
	struct arena a = {0};
	struct rng r;
	struct found f = {0};
	int cuts = atoi(arg[5]), unread = 0, bad = 0;
	int rc = block_open(&d, &a, arg[0], arg[1], arg[2]);
	if (rc >= 0)
		rc = read_list(arg[3], &want);
	char *image = rc < 0 ? NULL : malloc(d.base.n);
	if (rc >= 0 && !image)
		rc = fail(E_NOMEM, "no memory for an image");
	rng_seed(&r, 1);
	/* Nothing is written to the cache before the box: the cuts fall behind the entry before which
	 * an eighth of the log lies. */
	for (int i = 0; i < cuts && rc >= 0; i++) {
		struct found one = f;
		int first = d.n / 8, at = first + (int)rng_below(&r, (uint32_t)(d.n - first) + 1);
		rc = cut_one(&d, &want, at, arg[4], arg[6], image, &r, &f);
		unread += rc > 0;
		one.records = f.records;
		bad += rc > 0 || memcmp(&one, &f, sizeof f) != 0;
	}
	free(image);
	arena_free(&a);
	if (rc < 0)
		return rc;
	printf("%d cuts of a block device (%d writes and flushes, %d acknowledgements up to generation %d): "
	       "%d bad; %d "
	       "disks not read, ",
	       cuts, d.n, d.nacks, d.ack[d.nacks - 1], bad, unread);
	print_found(&f);
	return healthy(&f) && !unread ? E_OK : fail(E_WRONG, "the cache lost something");
}

int main(int argc, char **argv)
{
	int rc = fail(E_USAGE, "the first comment of tests/lib/boots.c lists the arguments");
	log_level_set(LOG_QUIET);
	if (argc == 5 && !strcmp(argv[1], "net"))
		rc = write_net(atoi(argv[2]), argv[3], argv[4]);
	else if (argc == 3 && !strcmp(argv[1], "list"))
		rc = print_list(argv[2]);
	else if (argc == 5 && !strcmp(argv[1], "judge"))
		rc = judge_one(argv[2], argv[3], argv[4]);
	else if (argc == 9 && !strcmp(argv[1], "cut"))
		rc = cut(argv + 2);
	if (rc < 0)
		fprintf(stderr, "boots: %s\n", err_text());
	return rc < 0;
}
