/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet root: documents that say which keys boards trust (agent/sync/trust.h). They are signed with
 * private keys that are kept elsewhere, so each step works only on files: next, sign (on another machine),
 * check, add. */
#include "agent/cache/json.h"
#include "agent/sync/trust.h"
#include "platform/base/log.h"
#include "platform/base/shell.h"
#include "tools/fleet/fleet_conf.h"
#include "tools/fleet/fleet_verbs.h"
#include "tools/hone/output.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROOTS = 100000 };

struct job {
	const struct args *args;
	struct arena a;
	struct fleet_conf conf;
	const char *file;
};

static int root_path(const struct job *j, int64_t version, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/root/%" PRId64, j->conf.keys, version) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "--keys: the path is too long");
}

/* Reads the newest root that is in force. */
static int newest(struct job *j, struct root *out)
{
	char path[PATH_MAX];
	struct blob b;
	int64_t v = 1;
	int rc = root_path(j, v, path);
	if (rc >= 0 && !file_exists(path))
		rc = fail(E_NOTFOUND, "%s: there is no root yet; `hone-fleet init` makes the first", path);
	while (rc >= 0 && v < MOST_ROOTS && root_path(j, v + 1, path) >= 0 && file_exists(path))
		v++;
	if (rc >= 0)
		rc = root_path(j, v, path);
	if (rc >= 0)
		rc = file_read(&j->a, path, TRUST_BYTES, &b);
	return rc < 0 ? rc : fail_in(root_read(b.p, b.n, out), "%s", path);
}

/* Reads the keys that --sign names. */
static int read_keys(const struct job *j, struct private_key *key[SIGNED_MOST])
{
	const char *const *file;
	int n = arg_list(j->args, "sign", &file), rc = E_OK;
	if (n < 1 || n > SIGNED_MOST)
		return fail(E_USAGE, "--sign KEY: name 1 to %d files of root keys", SIGNED_MOST);
	for (int i = 0; i < n && rc >= 0; i++)
		rc = private_key_read(file[i], &key[i]);
	return rc < 0 ? rc : n;
}

static void free_keys(struct private_key *key[SIGNED_MOST])
{
	for (int i = 0; i < SIGNED_MOST; i++)
		private_key_free(key[i]);
}

/* Changes to the keys of a role. */

static int add_key(struct role_keys *r, const char *hex)
{
	if (r->n == TRUST_KEYS)
		return fail(E_USAGE, "a role has at most %d keys", TRUST_KEYS);
	if (hex_read(hex, PUBLIC_KEY_BYTES, r->key[r->n].b) < 0 || !public_key_good(&r->key[r->n]))
		return fail(E_USAGE, "'%.20s...' is not a public key; `hone-fleet root key FILE` prints one",
			    hex);
	r->n++;
	return E_OK;
}

static int drop_key(struct role_keys *r, const char *id)
{
	char has[KEY_ID_HEX + 1];
	for (int i = 0; i < r->n; i++) {
		public_key_id(&r->key[i], has);
		if (!strcmp(has, id)) {
			r->key[i] = r->key[--r->n];
			return E_OK;
		}
	}
	return fail(E_NOTFOUND, "no key %s in that role; `hone-fleet root check` lists them", id);
}

static int change(const struct job *j, struct root *r)
{
	static const struct {
		const char *opt;
		enum trust_role role;
		int (*fn)(struct role_keys *r, const char *text);
	} changes[] = {{"drop-root", ROLE_ROOT, drop_key},
		       {"add-root", ROLE_ROOT, add_key},
		       {"drop-fleet", ROLE_FLEET, drop_key},
		       {"add-fleet", ROLE_FLEET, add_key}};
	int rc = E_OK;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		const char *const *text;
		int n = arg_list(j->args, changes[i].opt, &text);
		for (int k = 0; k < n && rc >= 0; k++)
			rc = fail_in(changes[i].fn(&r->role[changes[i].role], text[k]), "--%s",
				     changes[i].opt);
	}
	r->role[ROLE_ROOT].threshold = (int)arg_int(j->args, "threshold", r->role[ROLE_ROOT].threshold);
	r->version++;
	return rc;
}

/* Actions. */

static int do_key(struct job *j)
{
	struct private_key *k = NULL;
	struct public_key public;
	char hex[2 * PUBLIC_KEY_BYTES + 1], id[KEY_ID_HEX + 1];
	int rc = private_key_make(&k);
	if (rc >= 0)
		rc = private_key_write(k, j->file);
	if (rc >= 0) {
		private_key_public(k, &public);
		hex_write(public.b, sizeof public.b, hex);
		public_key_id(&public, id);
		puts(hex);
		log_info(
		    "hone-fleet: %s: wrote private key %s; give its public key to --add-root or --add-fleet",
		    j->file, id);
	}
	private_key_free(k);
	return rc;
}

static int write_next(struct job *j, const struct root *r, struct private_key *const *key, int n)
{
	struct buf payload = {0}, doc = {0};
	struct root again;
	root_print(r, &payload);
	int rc = root_parse(payload.p, payload.n, &again);
	if (rc >= 0)
		rc = signed_write("root", payload.p, payload.n, (const struct private_key *const *)key, n,
				  &doc);
	if (rc >= 0)
		rc = file_write(j->file, doc.p, doc.n);
	buf_free(&payload);
	buf_free(&doc);
	return rc;
}

static int do_next(struct job *j)
{
	struct private_key *key[SIGNED_MOST] = {NULL};
	struct root r;
	int n = 0, rc = output_replaces(j->args, j->file, OUTPUT_SIGNED_ROOT, "file");
	if (rc >= 0)
		rc = newest(j, &r);
	if (rc >= 0)
		rc = change(j, &r);
	if (rc >= 0)
		rc = n = read_keys(j, key);
	if (rc >= 0)
		rc = write_next(j, &r, key, n);
	if (rc >= 0)
		log_info("hone-fleet: %s: root %" PRId64
			 ", signed with %d key%s; `hone-fleet root check %s` says whether that is enough",
			 j->file, r.version, n, plural_s(n), j->file);
	free_keys(key);
	return rc;
}

static int do_sign(struct job *j)
{
	struct private_key *key[SIGNED_MOST] = {NULL};
	struct blob b;
	struct buf doc = {0};
	int n = 0, rc = file_read(&j->a, j->file, TRUST_BYTES, &b);
	if (rc >= 0)
		rc = n = read_keys(j, key);
	buf_add(&doc, rc >= 0 ? b.p : "", rc >= 0 ? b.n : 0);
	for (int i = 0; i < n && rc >= 0; i++) {
		struct buf more = {0};
		rc = signed_add(doc.p, doc.n, key[i], &more);
		buf_free(&doc);
		doc = more;
	}
	if (rc >= 0)
		rc = file_write(j->file, doc.p, doc.n);
	buf_free(&doc);
	free_keys(key);
	return rc;
}

static void print_role(const char *name, const struct role_keys *r, const struct signed_doc *d)
{
	char id[KEY_ID_HEX + 1];
	printf("%s: %d of %d must sign\n", name, r->threshold, r->n);
	for (int i = 0; i < r->n; i++) {
		bool did = false;
		public_key_id(&r->key[i], id);
		for (int k = 0; k < d->n; k++)
			did |=
			    !strcmp(d->by[k].id, id) && crypto_verified(&r->key[i], &d->hash, &d->by[k].sig);
		printf("  %s%s\n", id, did ? " signed this" : "");
	}
}

/* Checks whether boards that have the newest root will accept the next one. */
static int do_check(struct job *j)
{
	struct blob b;
	struct signed_doc d;
	struct root r, now, next;
	int rc = file_read(&j->a, j->file, TRUST_BYTES, &b);
	if (rc >= 0)
		rc = signed_parse(b.p, b.n, "root", &d);
	if (rc >= 0)
		rc = root_parse(d.payload.p, d.payload.n, &r);
	if (rc < 0)
		return fail_in(rc, "%s", j->file);
	printf("root %" PRId64 "\n", r.version);
	print_role("root", &r.role[ROLE_ROOT], &d);
	print_role("fleet", &r.role[ROLE_FLEET], &d);
	rc = newest(j, &now);
	if (rc < 0)
		return rc;
	rc = now.version == r.version ? root_read(b.p, b.n, &next) : root_follows(&now, b.p, b.n, &next);
	if (rc >= 0)
		log_info("hone-fleet: %s: valid%s", j->file,
			 now.version == r.version ? "" : "; `hone-fleet root add` puts it in force");
	return fail_in(rc, "%s", j->file);
}

/* A board follows newer roots by itself, so new images carry only the newest. */
static int copy_for_images(const struct job *j, const struct blob *doc, const char *from)
{
	int rc = fleet_write_root(j->conf.keys, doc->p, doc->n);
	if (rc >= 0)
		return rc;
	struct buf copy = {0}, to = {0};
	buf_printf(&to, "%s/" FLEET_ROOT, j->conf.keys);
	buf_puts(&copy, "install -m 644 ");
	shell_path(&copy, from);
	buf_puts(&copy, " ");
	shell_path(&copy, buf_str(&to));
	rc = fail_in(rc, "only the copy for images of new boards failed; `%s` makes it", buf_str(&copy));
	buf_free(&copy);
	buf_free(&to);
	return rc;
}

static int do_add(struct job *j)
{
	char path[PATH_MAX];
	struct blob b;
	struct root now, next;
	int rc = file_read(&j->a, j->file, TRUST_BYTES, &b);
	if (rc >= 0)
		rc = newest(j, &now);
	if (rc >= 0)
		rc = fail_in(root_follows(&now, b.p, b.n, &next), "%s", j->file);
	if (rc >= 0)
		rc = root_path(j, next.version, path);
	if (rc >= 0)
		rc = file_write(path, b.p, b.n);
	if (rc >= 0)
		log_info("hone-fleet: root %" PRId64
			 " is in force: %s. The server publishes it at its next round",
			 next.version, path);
	return rc < 0 ? rc : copy_for_images(j, &b, path);
}

static const struct {
	const char *name;
	int (*fn)(struct job *j);
} actions[] = {{"key", do_key}, {"next", do_next}, {"sign", do_sign}, {"check", do_check}, {"add", do_add}};

static int run_root(const struct args *args)
{
	struct job j = {.args = args, .file = args->pos[1]};
	int rc = fleet_conf_of(args, &j.conf, &j.a);
	if (rc >= 0)
		rc = crypto_start();
	if (rc >= 0) {
		size_t i = 0, n = sizeof actions / sizeof *actions;
		while (i < n && strcmp(actions[i].name, args->pos[0]) != 0)
			i++;
		rc = i < n ? actions[i].fn(&j)
			   : fail(E_USAGE, "unknown action '%s'; use key, next, sign, check or add",
				  args->pos[0]);
	}
	arena_free(&j.a);
	return rc < 0 ? rc : 0;
}

static const struct opt root_opts[] = {
    {"sign", OPT_LIST, "KEYFILE", "next, sign: file of a private root key"},
    {"add-root", OPT_LIST, "HEX", "next: a public key that may sign roots"},
    {"drop-root", OPT_LIST, "ID", "next: a key that may no longer sign roots"},
    {"add-fleet", OPT_LIST, "HEX", "next: a public key that may sign snapshots"},
    {"drop-fleet", OPT_LIST, "ID", "next: a key that may no longer sign snapshots"},
    {"threshold", OPT_INT, "2", "next: number of root keys that must sign"},
    FLEET_OPT_KEYS,
    FLEET_OPT_CONFIG,
    FLEET_OPT_STATE,
    {NULL},
};

const struct cmd fleet_cmd_root = {
    .usage = "key|next|sign|check|add FILE [options]",
    .summary = "make, sign and check root documents, which say whose keys boards trust",
    .details =
	"key FILE makes a private key and prints its public key. next FILE writes the document that follows "
	"the newest of KEYS/root, with the changes that the options give. sign FILE adds signatures: of the "
	"old root's keys and of the new one's, as many as each demands. check FILE shows what it holds, and "
	"whether boards will accept it. add FILE puts it in force, and into KEYS/" FLEET_ROOT
	", the file for images of new boards.",
    .min_pos = 2,
    .max_pos = 2,
    .opts = root_opts,
    .run = run_root,
    .name = "root",
};
