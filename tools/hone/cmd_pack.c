/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/exchange.h"
#include "agent/cache/json.h"
#include "agent/sync/pack.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include "tools/hone/pack_fleet.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

/* Size of the cache that takes a fleet's records: the part of it that is open to hints holds more than a
 * fleet publishes. */
enum { FLEET_CAP = 256 << 20 };

struct pack {
	const char *out;
	char dir[4096]; /* folder that the pack is made of */
	char cls[33];   /* class of this machine, or as given; "": not known */
	char label[160];
	struct cache *cache;
	int64_t serial;
	struct pack_about about;
	struct private_key *key; /* NULL: the pack is not signed */
};

static int find_class(const struct args *a, struct pack *p)
{
	const char *cls = arg_str(a, "class", NULL);
	struct target t;
	if (!cls) {
		int rc = target_host(&t);
		if (rc < 0)
			return rc;
		key_text(target_key(&t), p->cls);
		target_label(&t, p->label);
		return E_OK;
	}
	if (strcmp(cls, "any") && (strlen(cls) != 32 || strspn(cls, "0123456789abcdef") != 32))
		return fail(E_USAGE, "--class must be 32 hex digits or 'any'");
	snprintf(p->cls, sizeof p->cls, "%s", cls);
	return E_OK;
}

/* Reads from the fleet's files the records that a board of the class would take. */
static int read_fleet(const struct args *a, struct pack *p)
{
	const char *from = arg_str(a, "from", NULL);
	const struct cache_options o = {.cap_bytes = FLEET_CAP, .seeds = ""};
	struct taken_sum sum = {0};
	struct trusted t;
	snprintf(p->dir, sizeof p->dir, "%s", from);
	int rc = trusted_open(a, true, &t);
	if (rc >= 0)
		rc = cache_open_with(&p->cache, "/nowhere", CACHE_MEMORY, 0, &o);
	if (rc >= 0)
		rc = pack_fleet(from, p->cls, arg_str(a, "channel", "all"), &t, p->cache, &p->serial, &sum);
	trusted_close(&t);
	return rc;
}

/* Fills in what the signature states about the pack. If a class is given, all records must be of it. */
static int describe(const struct args *a, struct pack *p)
{
	int rc = pack_describe(p->out, &p->about);
	if (rc < 0)
		return rc;
	bool given = arg_given(a, "class"), same = !strcmp(p->about.cls, p->cls);
	if (given && !same && strcmp(p->cls, "any"))
		return fail(E_USAGE, "the cache has records of other classes: give --class any");
	if (given)
		memcpy(p->about.cls, p->cls, sizeof p->about.cls);
	if (same)
		memcpy(p->about.label, p->label, sizeof p->about.label);
	p->about.serial = p->serial;
	return E_OK;
}

/* Counts of the pack's entries. */
struct packed {
	int of[CACHE_TYPES]; /* records, by type */
	int records;         /* all that hone export has lines for; of a fleet, its hints, too */
	int hints;           /* of other boards, which this one has not tried */
	int code, others;    /* others: marks and gains, which say something of this machine alone */
};

static void count_packed(const struct args *a, const struct pack *p, int n, struct packed *out)
{
	struct cache_state s;
	cache_state(p->cache, &s);
	*out = (struct packed){.code = arg_flag(a, "no-code") ? 0 : s.count[CACHE_CODE],
			       .hints = s.count[CACHE_HINT] + s.count[CACHE_HINT_CHOICES]};
	for (int i = 0; exchange_types[i]; i++)
		out->records += out->of[exchange_types[i]] = s.count[exchange_types[i]];
	out->others = n - out->code - out->hints - out->records;
	if (arg_given(a, "from")) {
		memcpy(out->of, s.count, sizeof out->of);
		out->records += out->hints;
		out->hints = 0;
	}
}

/* "2 records, choices for 1 model, code of 2 candidates" */
static void put_packed(const struct packed *p, struct buf *out)
{
	exchange_words(p->of, out);
	if (p->hints)
		buf_printf(out, ", %d hint%s of other boards", p->hints, plural_s(p->hints));
	if (p->code)
		buf_printf(out, ", code of %d candidate%s", p->code, plural_s(p->code));
	if (p->others > 0)
		buf_printf(out, ", %d other entr%s", p->others, p->others == 1 ? "y" : "ies");
}

static int print(const struct args *a, const struct pack *p, int n)
{
	const char *above = arg_given(a, "from") ? NULL : model_cache_above(p->cache, p->dir);
	struct public_key key = {0};
	char id[KEY_ID_HEX + 1] = "", hex[2 * PUBLIC_KEY_BYTES + 1] = "";
	struct packed in;
	count_packed(a, p, n, &in);
	if (p->key) {
		private_key_public(p->key, &key);
		public_key_id(&key, id);
		hex_write(key.b, PUBLIC_KEY_BYTES, hex);
	}
	if (a->json)
		return json_out(json_pack("{so so* so si si si si sI ss ss* ss*}", "cache", json_text(p->dir),
					  "also", above ? json_text(above) : NULL, "file", json_text(p->out),
					  "records", in.records, "hints", in.hints, "code_objects", in.code,
					  "other_entries", in.others, "bytes", (json_int_t)p->about.bytes,
					  "class", p->about.cls, "signed_by", *id ? id : NULL, "public",
					  *hex ? hex : NULL));
	struct buf from = {0}, what = {0};
	if (above)
		model_cache_names(p->cache, p->dir, &from);
	put_packed(&in, &what);
	table_say("%s: %s%s%s, %lld bytes%s%s", p->out, buf_str(&what), above ? " of " : "", buf_str(&from),
		  (long long)p->about.bytes, *id ? ", signed by " : "", id);
	buf_free(&from);
	buf_free(&what);
	next_flush();
	if (!n)
		log_info("nothing was packed: hone tune makes records");
	else
		log_info("put it into the image, in " CACHE_SEED "%s",
			 *hex ? ", or import it on another board" : "");
	if (*hex && n)
		next_say("hone import %s --key %s", p->out, hex);
	return 0;
}

/* The cache's writer names the output's folder as a cache, which is not what the user wrote to. */
static int name_file(const struct pack *p, int rc)
{
	static const char remedy[] = ", or choose another folder with --cache";
	struct buf text = {0};
	buf_puts(&text, err_text());
	const char *why = strncmp(buf_str(&text), "cache ", 6) ? NULL : strstr(buf_str(&text), ": ");
	const char *slash = strrchr(p->out, '/'), *folder = slash ? p->out : ".";
	size_t n = slash ? (size_t)(slash - p->out) + (slash == p->out) : 1;
	if (why && (size_t)(why - buf_str(&text)) == 6 + n && !strncmp(buf_str(&text) + 6, folder, n)) {
		const char *end = strstr(why, remedy);
		rc = fail(rc, "%s%.*s, or name another file with -o", p->out,
			  end ? (int)(end - why) : (int)strlen(why), why);
	}
	buf_free(&text);
	return rc;
}

static int make(const struct args *a, struct pack *p)
{
	const char *key = arg_str(a, "key", NULL);
	int rc = crypto_start();
	if (rc >= 0)
		rc = find_class(a, p);
	if (rc >= 0 && key)
		rc = private_key_read(key, &p->key);
	if (rc >= 0)
		rc = arg_given(a, "from") ? read_fleet(a, p)
					  : model_cache_open(a, false, p->dir, sizeof p->dir, &p->cache);
	int n = rc < 0 ? rc : cache_pack(p->cache, p->out, !arg_flag(a, "no-code"));
	if (n < 0)
		return rc < 0 ? rc : name_file(p, n);
	rc = describe(a, p);
	if (rc >= 0 && p->key)
		rc = pack_sign(p->out, &p->about, p->key);
	return rc < 0 ? rc : print(a, p, n);
}

/* Checks the pack, and the signature, which is written beside it. */
static int check_outputs(const struct args *a, const char *name, char to[PATH_MAX])
{
	char sig[PATH_MAX + sizeof PACK_SIG], sig_to[PATH_MAX];
	int rc = output_file(a, name, OUTPUT_PACK, to);
	if (rc < 0 || !arg_given(a, "key"))
		return rc;
	snprintf(sig, sizeof sig, "%s" PACK_SIG, to);
	return output_file(a, sig, OUTPUT_SIGNED_PACK, sig_to);
}

static int run_pack(const struct args *a)
{
	struct pack p = {.out = arg_str(a, "output", "cache.seg")};
	char to[PATH_MAX];
	int rc = check_outputs(a, p.out, to);
	p.out = to;
	if (rc >= 0)
		rc = make(a, &p);
	if (p.cache)
		cache_close(p.cache);
	private_key_free(p.key);
	return rc;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE.seg", "the file to write (default cache.seg)", 'o'},
    {"no-code", OPT_FLAG, NULL, "write records without code, for boards of another kind"},
    {"key", OPT_STR, "FILE",
     "sign it, as FILE.seg.sig, with a private key for P-256 in PEM, as `openssl genpkey -algorithm EC "
     "-pkeyopt "
     "ec_paramgen_curve:P-256` makes it"},
    {"class", OPT_STR, "CLASS", "class of boards that it is for, or any (default: this machine's class)"},
    {"from", OPT_STR, "FOLDER", "make the pack from the files that a fleet published, not from the cache"},
    {"channel", OPT_STR, "NAME", "with --from: channel canary, early or all (default)",
     .values = "canary early all"},
    OPT_ROOT,
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_pack = {
    .usage = "[-o FILE.seg] [--no-code] [--key FILE] [--from FOLDER] [--cache DIR]",
    .summary = "write the cache as one file, to ship in an image",
    .details =
	"Superseded records are left out; with --json, records counts what hone export writes, not code\n"
	"and not hints of other boards. Put into any folder of seeds (" CACHE_SEED
	", or $HONE_SEEDS), the file is\n"
	"used below the board's own records; its code is only run, and its recipes of level int8 only "
	"used, if\n"
	"nobody but root can write the file. With a recipe the board runs and tunes its model at "
	"level int8 without\n"
	"examples. hone import reads the records of a signed pack, with --recipes its recipes, never "
	"its code. With\n"
	"--from, everything that the fleet signed is checked as on a board; a fleet has no recipes.",
    .opts = opts,
    .run = run_pack,
    .name = "pack",
};
