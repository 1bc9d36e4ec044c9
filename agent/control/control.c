/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/control.h"

#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum kind { K_INT, K_INT64, K_REAL, K_BOOL, K_TEXT, K_KEY, K_LEASE };

/* The keys of requests and their allowed values. */
enum name {
	N_VERSION,
	N_MODEL,
	N_DEVICE,
	N_THREADS,
	N_MS,
	N_NOW,
	N_STOPS,
	N_JOB,
	N_PID,
	N_WHY,
	N_NAME,
	N_FOR,
	N_LABEL,
	N_KIND,
	N_TYPE,
	N_KEY,
	N_BYTES,
	N_TASK,
	N_NTASKS,
	N_TRIALS,
	N_KEPT,
	N_MISSING,
	N_BEFORE_MS,
	N_DEFAULT_MS,
	N_NOW_MS,
	N_AFTER_MS,
	N_LEFT_MS,
	N_NET_MS,
	N_PROMISE,
	N_DISTURBED,
	N_LASTING,
	N_SHAPES,
	N_COUNT
};

#define MOST_MS 1e12 /* as ns it is an int64_t */
enum { MOST_THREADS = 1024, MOST_COUNT = 1000000000 };

#define AT(field) offsetof(struct request, field)
static const struct {
	char name[12];
	uint8_t kind;      /* enum kind */
	uint16_t at, room; /* room: of a text, with its NUL */
	double least, most;
} names[N_COUNT] = {
    [N_VERSION] = {"version", K_INT, AT(version), 0, 1, MOST_COUNT},
    [N_MODEL] = {"model", K_TEXT, AT(model), sizeof((struct request *)0)->model},
    [N_DEVICE] = {"device", K_TEXT, AT(device), sizeof((struct request *)0)->device},
    [N_THREADS] = {"threads", K_INT, AT(threads), 0, 0, MOST_THREADS},
    [N_MS] = {"ms", K_INT64, AT(ms), 0, 0, MOST_MS},
    [N_NOW] = {"now", K_BOOL, AT(now)},
    [N_STOPS] = {"stops", K_BOOL, AT(stops)},
    [N_JOB] = {"job", K_INT64, AT(job), 0, 0, INT32_MAX},
    [N_PID] = {"pid", K_INT64, AT(job), 0, 1, INT32_MAX},
    [N_WHY] = {"why", K_TEXT, AT(text), sizeof((struct request *)0)->text},
    [N_NAME] = {"name", K_TEXT, AT(text), sizeof((struct request *)0)->text},
    [N_FOR] = {"for", K_TEXT, AT(text), sizeof((struct request *)0)->text},
    [N_LABEL] = {"label", K_TEXT, AT(text), sizeof((struct request *)0)->text},
    [N_KIND] = {"kind", K_LEASE, AT(lease)},
    [N_TYPE] = {"type", K_INT, AT(type), 0, 1, CONTROL_LAST_TYPE},
    [N_KEY] = {"key", K_KEY, AT(key)},
    [N_BYTES] = {"bytes", K_INT64, AT(bytes), 0, 0, CONTROL_PUT},
    [N_TASK] = {"task", K_INT, AT(task), 0, 0, MOST_COUNT},
    [N_NTASKS] = {"ntasks", K_INT, AT(ntasks), 0, 0, MOST_COUNT},
    [N_TRIALS] = {"trials", K_INT, AT(trials), 0, 0, MOST_COUNT},
    [N_KEPT] = {"kept", K_INT, AT(kept), 0, 0, MOST_COUNT},
    [N_MISSING] = {"missing", K_INT, AT(missing), 0, 0, MOST_COUNT},
    [N_BEFORE_MS] = {"before_ms", K_REAL, AT(before_ms), 0, 0, MOST_MS},
    [N_DEFAULT_MS] = {"default_ms", K_REAL, AT(default_ms), 0, 0, MOST_MS},
    [N_NOW_MS] = {"now_ms", K_REAL, AT(now_ms), 0, 0, MOST_MS},
    [N_AFTER_MS] = {"after_ms", K_REAL, AT(now_ms), 0, 0, MOST_MS},
    [N_LEFT_MS] = {"left_ms", K_REAL, AT(left_ms), 0, -MOST_MS, MOST_MS},
    [N_NET_MS] = {"net_ms", K_REAL, AT(net_ms), 0, 0, MOST_MS},
    [N_PROMISE] = {"promise", K_REAL, AT(promise), 0, -1, 1},
    [N_DISTURBED] = {"disturbed", K_BOOL, AT(disturbed)},
    [N_LASTING] = {"lasting", K_BOOL, AT(lasting)},
    [N_SHAPES] = {"shapes", K_TEXT, AT(shapes), sizeof((struct request *)0)->shapes},
};

#define BIT(name) (1u << (name))
static const struct {
	const char *name;
	unsigned must, may; /* BIT(enum name), or-ed */
} ops[OP_COUNT] = {
    [OP_HELLO] = {"hello", BIT(N_VERSION)},
    [OP_STATUS] = {"status"},
    [OP_WATCH] = {"watch"},
    [OP_WAIT] = {"wait", BIT(N_FOR)},
    [OP_INHIBIT] = {"inhibit", BIT(N_WHY), BIT(N_MS)},
    [OP_RESUME] = {"resume", 0, BIT(N_NAME)},
    [OP_TUNE] = {"tune", BIT(N_MODEL),
		 BIT(N_MS) | BIT(N_DEVICE) | BIT(N_THREADS) | BIT(N_NOW) | BIT(N_SHAPES)},
    [OP_CANCEL] = {"cancel", BIT(N_JOB)},
    [OP_RELOAD] = {"reload"},
    [OP_JOB] = {"job", BIT(N_MODEL) | BIT(N_PID), BIT(N_DEVICE) | BIT(N_THREADS)},
    [OP_SYNC] = {"sync"},
    [OP_LEASE] = {"lease", BIT(N_KIND), BIT(N_STOPS)},
    [OP_RELEASE] = {"release"},
    [OP_PUT] = {"put", BIT(N_TYPE) | BIT(N_KEY) | BIT(N_BYTES)},
    [OP_FORGET] = {"forget", BIT(N_TYPE) | BIT(N_KEY)},
    [OP_COMMIT] = {"commit"},
    [OP_PROGRESS] = {"progress", 0,
		     BIT(N_TASK) | BIT(N_NTASKS) | BIT(N_TRIALS) | BIT(N_BEFORE_MS) | BIT(N_NOW_MS) |
			 BIT(N_LEFT_MS) | BIT(N_LABEL) | BIT(N_NET_MS) | BIT(N_KEY)},
    [OP_DONE] = {"done", 0,
		 BIT(N_TRIALS) | BIT(N_BEFORE_MS) | BIT(N_DEFAULT_MS) | BIT(N_AFTER_MS) | BIT(N_KEPT) |
		     BIT(N_MISSING) | BIT(N_PROMISE) | BIT(N_DISTURBED) | BIT(N_WHY) | BIT(N_LASTING)},
};

const char *const lease_words[LEASES] = {
    [LEASE_COMPUTE] = "compute", [LEASE_MEASURE] = "measure", [LEASE_QUIET] = "quiet"};

static int get_whole(enum name i, const json_t *j, struct request *out)
{
	if (!json_is_integer(j))
		return fail(E_CORRUPT, "'%s' is not a whole number", names[i].name);
	json_int_t v = json_integer_value(j);
	if (v < (json_int_t)names[i].least || v > (json_int_t)names[i].most)
		return fail(E_CORRUPT, "'%s': %" JSON_INTEGER_FORMAT " is not within %.0f to %.0f",
			    names[i].name, v, names[i].least, names[i].most);
	void *at = (char *)out + names[i].at;
	if (names[i].kind == K_INT)
		*(int *)at = (int)v;
	else
		*(int64_t *)at = v;
	return E_OK;
}

static int get_real(enum name i, const json_t *j, struct request *out)
{
	double v = json_number_value(j);
	if (!json_is_number(j) || !(v >= names[i].least && v <= names[i].most))
		return fail(E_CORRUPT, "'%s' is not a number within %g to %g", names[i].name, names[i].least,
			    names[i].most);
	*(double *)(void *)((char *)out + names[i].at) = v + 0.0; /* -0 is 0 */
	return E_OK;
}

static int get_text(enum name i, const json_t *j, struct request *out)
{
	if (!json_is_string(j) || json_string_length(j) >= names[i].room)
		return fail(E_CORRUPT, "'%s' is not a text of at most %d bytes", names[i].name,
			    names[i].room - 1);
	strcpy((char *)out + names[i].at, json_string_value(j));
	return E_OK;
}

static int get_lease(const json_t *j, struct request *out)
{
	for (int i = LEASE_COMPUTE; json_is_string(j) && i < LEASES; i++)
		if (!strcmp(lease_words[i], json_string_value(j))) {
			out->lease = (enum lease)i;
			return E_OK;
		}
	return fail(E_CORRUPT, "'kind' must be compute, measure or quiet");
}

static int get(enum name i, const json_t *j, struct request *out)
{
	switch (names[i].kind) {
	case K_INT:
	case K_INT64:
		return get_whole(i, j, out);
	case K_REAL:
		return get_real(i, j, out);
	case K_TEXT:
		return get_text(i, j, out);
	case K_LEASE:
		return get_lease(j, out);
	case K_KEY:
		return json_is_string(j) && key_parse(json_string_value(j), &out->key) >= 0
			   ? E_OK
			   : fail(E_CORRUPT, "'key' must be 32 hex digits");
	case K_BOOL:
		*(bool *)((char *)out + names[i].at) = json_is_true(j);
		return json_is_boolean(j) ? E_OK
					  : fail(E_CORRUPT, "'%s' must be true or false", names[i].name);
	}
	return E_OK;
}

static int get_op(const json_t *o, struct request *out)
{
	const char *op = json_string_value(json_object_get(o, "op"));
	if (!op)
		return fail(E_CORRUPT, "'op' is missing");
	for (int i = 0; i < OP_COUNT; i++)
		if (!strcmp(ops[i].name, op)) {
			out->op = (enum control_op)i;
			return E_OK;
		}
	return fail(E_UNSUPPORTED, "unknown op '%.32s' in version %d", op, CONTROL_VERSION);
}

static int get_id(const json_t *o, struct request *out)
{
	const json_t *id = json_object_get(o, "id");
	out->has_id = json_is_integer(id);
	out->id = json_integer_value(id);
	return !id || out->has_id ? E_OK : fail(E_CORRUPT, "'id' is not a whole number");
}

static int get_all(const json_t *o, struct request *out)
{
	int rc = get_id(o, out);
	if (rc >= 0)
		rc = get_op(o, out);
	if (rc < 0)
		return rc;
	for (int i = 0; i < N_COUNT && rc >= 0; i++) {
		const json_t *j = json_object_get(o, names[i].name);
		if (j && (ops[out->op].must | ops[out->op].may) & BIT(i))
			rc = get((enum name)i, j, out);
		else if (ops[out->op].must & BIT(i))
			rc = fail(E_CORRUPT, "'%s' is missing", names[i].name);
	}
	return fail_in(rc, "%s", ops[out->op].name);
}

int control_parse(const char *line, size_t n, struct request *out)
{
	json_error_t e;
	*out = (struct request){.promise = -1};
	if (n > CONTROL_LINE)
		return fail(E_CORRUPT, "a line of %zu bytes; at most %d are allowed", n, CONTROL_LINE);
	json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, &e);
	int rc = !o                   ? fail(E_CORRUPT, "not JSON at byte %d: %s", e.position, e.text)
		 : !json_is_object(o) ? fail(E_CORRUPT, "a request must be a JSON object")
				      : get_all(o, out);
	json_decref(o);
	return rc;
}

/* Returns the bytes of the UTF-8 character at p, as JSON allows it: no surrogates, no overlong forms. */
static size_t utf8_bytes(const unsigned char *p)
{
	if (*p < 0x80)
		return 1;
	size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	bool odd = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) ||
		   (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] >= 0x90);
	return odd ? 0 : n;
}

static void add_text(struct buf *out, const char *s, size_t most)
{
	buf_puts(out, "\"");
	for (const unsigned char *p = (const unsigned char *)s; *p;) {
		size_t n = utf8_bytes(p), room = most - (size_t)((const char *)p - s);
		if (room < (n ? n : 1))
			break;
		if (!n)
			buf_puts(out, "?");
		else if (*p == '"' || *p == '\\')
			buf_printf(out, "\\%c", *p);
		else if (*p < ' ')
			buf_printf(out, "\\u%04x", *p);
		else
			buf_add(out, p, n);
		p += n ? n : 1;
	}
	buf_puts(out, "\"");
}

void control_text(struct buf *out, const char *s)
{
	add_text(out, s, SIZE_MAX);
}

/* True: the key has its default value, so it need not be written. */
static bool is_absent(enum name i, const struct request *r)
{
	const void *at = (const char *)r + names[i].at;
	switch (names[i].kind) {
	case K_INT:
		return *(const int *)at == 0;
	case K_INT64:
		return *(const int64_t *)at == 0;
	case K_REAL:
		return !isfinite(*(const double *)at) ||
		       (i == N_PROMISE ? *(const double *)at < 0 : *(const double *)at == 0);
	case K_BOOL:
		return !*(const bool *)at;
	case K_TEXT:
		return !*(const char *)at;
	case K_KEY:
		return key_equal(r->key, (struct key){0});
	default:
		return false;
	}
}

static void print_value(enum name i, const struct request *r, struct buf *out)
{
	const void *at = (const char *)r + names[i].at;
	char key[33];
	buf_printf(out, ",\"%s\":", names[i].name);
	switch (names[i].kind) {
	case K_INT:
		buf_printf(out, "%d", *(const int *)at);
		return;
	case K_INT64:
		buf_printf(out, "%" PRId64, *(const int64_t *)at);
		return;
	case K_REAL:
		buf_printf(out, "%.*g", DBL_DECIMAL_DIG, *(const double *)at);
		return;
	case K_BOOL:
		buf_puts(out, *(const bool *)at ? "true" : "false");
		return;
	case K_TEXT:
		control_text(out, at);
		return;
	case K_KEY:
		key_text(r->key, key);
		buf_printf(out, "\"%s\"", key);
		return;
	case K_LEASE:
		buf_printf(out, "\"%s\"",
			   (int)r->lease > 0 && (int)r->lease < LEASES ? lease_words[r->lease] : "");
		return;
	}
}

void control_print(const struct request *r, struct buf *out)
{
	buf_puts(out, "{");
	if (r->has_id)
		buf_printf(out, "\"id\":%" PRId64 ",", r->id);
	buf_printf(out, "\"op\":\"%s\"", ops[r->op].name);
	for (int i = 0; i < N_COUNT; i++)
		if (ops[r->op].must & BIT(i) || (ops[r->op].may & BIT(i) && !is_absent((enum name)i, r)))
			print_value((enum name)i, r, out);
	buf_puts(out, "}\n");
}

static void reply(const struct request *r, bool ok, struct buf *out)
{
	buf_puts(out, "{");
	if (r->has_id)
		buf_printf(out, "\"id\":%" PRId64 ",", r->id);
	buf_printf(out, "\"ok\":%s", ok ? "true" : "false");
}

void control_good(const struct request *r, const char *more, struct buf *out)
{
	reply(r, true, out);
	buf_printf(out, "%s%s}\n", more && *more ? "," : "", more ? more : "");
}

void control_bad(const struct request *r, int rc, const char *text, struct buf *out)
{
	/* worst case: 6 bytes for each, as \u0001; with the rest this fits into a line */
	enum { MOST_TEXT = 1000 };
	reply(r, false, out);
	buf_printf(out, ",\"code\":\"%s\",\"error\":", err_name(rc));
	add_text(out, text, MOST_TEXT);
	buf_puts(out, "}\n");
}

int control_code(const char *name)
{
	for (int rc = E_USAGE; name && rc >= E_LAST; rc--)
		if (!strcmp(name, err_name(rc)))
			return rc;
	return E_IO;
}
