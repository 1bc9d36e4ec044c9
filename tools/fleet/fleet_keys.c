/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet init: makes all keys of a fleet in a temporary folder, which is then renamed to its place. */
#include "agent/cache/json.h"
#include "agent/sync/trust.h"
#include "platform/base/shell.h"
#include "platform/base/log.h"
#include "tools/fleet/fleet_conf.h"
#include "tools/fleet/fleet_store.h"
#include "tools/fleet/fleet_verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROOT_KEYS = 3, ROOT_THRESHOLD = 2, SERVER_YEARS = 10 };

struct keys {
	char dir[PATH_MAX - 64];
	struct private_key *ca, *fleet, *server, *root[ROOT_KEYS];
	struct buf ca_pem;
	char token[2 * 20 + 1]; /* admin token */
};

static int path_in(const struct keys *k, char path[PATH_MAX], const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s", k->dir, name) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path is too long");
}

static int make_key(const struct keys *k, const char *name, struct private_key **out)
{
	char path[PATH_MAX];
	int rc = path_in(k, path, name);
	if (rc >= 0)
		rc = private_key_make(out);
	return rc < 0 ? rc : private_key_write(*out, path);
}

static int put(const struct keys *k, const char *name, const struct buf *b)
{
	char path[PATH_MAX];
	int rc = buf_ok(b) ? path_in(k, path, name) : fail(E_NOMEM, "no memory");
	return rc < 0 ? rc : file_write(path, b->p, b->n);
}

static int make_folders(const struct keys *k)
{
	static const char *const names[] = {"", "offline", "root"};
	char path[PATH_MAX];
	int rc = E_OK;
	for (int i = 0; i < 3 && rc >= 0; i++) {
		rc = path_in(k, path, names[i]);
		if (rc >= 0)
			rc = file_mkdirs(path, 0700);
	}
	return rc;
}

static int make_ca(struct keys *k, const char *name)
{
	int rc = make_key(k, "ca.key", &k->ca);
	if (rc >= 0)
		rc = cert_write_ca(k->ca, name, &k->ca_pem);
	return rc < 0 ? rc : put(k, "ca.pem", &k->ca_pem);
}

static int make_server(struct keys *k, const char *host)
{
	struct public_key public;
	struct buf pem = {0};
	int rc = make_key(k, "server.key", &k->server);
	if (rc < 0)
		return rc;
	private_key_public(k->server, &public);
	rc = cert_write(k->ca, buf_str(&k->ca_pem), &public, "hone-fleet", host, time(NULL), SERVER_YEARS,
			&pem);
	if (rc >= 0)
		rc = put(k, "server.pem", &pem);
	buf_free(&pem);
	return rc;
}

static int sign_root(struct keys *k)
{
	struct root r = {.version = 1,
			 .role = {[ROLE_ROOT] = {.threshold = ROOT_THRESHOLD, .n = ROOT_KEYS},
				  [ROLE_FLEET] = {.threshold = 1, .n = 1}}};
	struct buf payload = {0}, doc = {0};
	for (int i = 0; i < ROOT_KEYS; i++)
		private_key_public(k->root[i], &r.role[ROLE_ROOT].key[i]);
	private_key_public(k->fleet, &r.role[ROLE_FLEET].key[0]);
	root_print(&r, &payload);
	int rc = signed_write("root", payload.p, payload.n, (const struct private_key *const *)k->root,
			      ROOT_KEYS, &doc);
	if (rc >= 0)
		rc = put(k, "root/1", &doc);
	if (rc >= 0)
		rc = fleet_write_root(k->dir, doc.p, doc.n);
	buf_free(&payload);
	buf_free(&doc);
	return rc;
}

static int make_admin(struct keys *k)
{
	uint8_t random[20];
	char id[65];
	struct buf b = {0};
	int rc = crypto_random(random, sizeof random);
	if (rc < 0)
		return rc;
	hex_write(random, sizeof random, k->token);
	rc = store_token_id(k->token, id);
	buf_printf(&b, "%s\n", id);
	if (rc >= 0)
		rc = put(k, "admin", &b);
	buf_free(&b);
	return rc;
}

static int make_all(struct keys *k, const char *name, const char *host)
{
	int rc = make_folders(k);
	if (rc >= 0)
		rc = make_ca(k, name);
	if (rc >= 0)
		rc = make_key(k, "fleet.key", &k->fleet);
	for (int i = 0; i < ROOT_KEYS && rc >= 0; i++) {
		char file[32];
		snprintf(file, sizeof file, "offline/root-%d.key", i + 1);
		rc = make_key(k, file, &k->root[i]);
	}
	if (rc >= 0)
		rc = sign_root(k);
	if (rc >= 0 && host)
		rc = make_server(k, host);
	return rc < 0 ? rc : make_admin(k);
}

static void free_keys(struct keys *k)
{
	struct private_key *all[] = {k->ca, k->fleet, k->server, k->root[0], k->root[1], k->root[2]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		private_key_free(all[i]);
	buf_free(&k->ca_pem);
	explicit_bzero(k->token, sizeof k->token);
}

/* With a certificate of its own, the server needs no nginx before it. */
static void next_serve(const struct args *args, const char *dir)
{
	static const char *const names[][2] = {{"cert", "server.pem"}, {"key", "server.key"}};
	char path[PATH_MAX];
	struct buf more = {0};
	for (int i = 0; i < 2 && arg_given(args, "host"); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i][1]);
		buf_printf(&more, " --%s ", names[i][0]);
		shell_path(&more, path);
	}
	fleet_next(args, &fleet_cmd_serve, buf_str(&more));
	buf_free(&more);
}

/* Options that `token` needs as `init` had them. */
static const char *const same_places[2] = {"config", "state"};

static int tell(const struct args *args, const struct keys *k, const char *dir)
{
	if (args->json)
		return json_out(json_pack("{s:s,s:s,s:[s,s,s]}", "keys", dir, "admin_token", k->token,
					  "offline_keys", "offline/root-1.key", "offline/root-2.key",
					  "offline/root-3.key"));
	struct buf same = {0};
	for (size_t i = 0; i < 2; i++)
		if (arg_given(args, same_places[i])) {
			buf_printf(&same, " --%s ", same_places[i]);
			shell_path(&same, arg_str(args, same_places[i], ""));
		}
	printf("admin token: %s\n", k->token);
	log_info("hone-fleet: the keys are in %s. What to do with them:", dir);
	log_info("- keep the admin token; it is not shown again (its hash is in %s/admin)", dir);
	log_info("- move %s/offline/root-1.key, root-2.key and root-3.key off this machine, to three places: "
		 "two of them can sign a new root, and the server needs none",
		 dir);
	log_info("- copy %s/" FLEET_ROOT " to each board, as " TRUST_ROOT, dir);
	if (arg_given(args, "host"))
		log_info(
		    "- copy %s/ca.pem to each board, as the file that `ca` in [sync] of honed.conf names",
		    dir);
	log_info("- once the server runs, make a token for each board: hone-fleet token%s", buf_str(&same));
	next_serve(args, dir);
	buf_free(&same);
	return E_OK;
}

/* Renames the folder to its place. An existing folder that is not empty is not changed. */
static int put_in_place(const struct keys *k, const char *dir)
{
	if (rename(k->dir, dir) == 0) {
		file_sync_folder_of(dir);
		return E_OK;
	}
	if (errno == ENOTEMPTY || errno == EEXIST)
		return fail(E_BUSY, "%s is not empty, and keys are never overwritten: name another folder",
			    dir);
	return fail(E_IO, "%s: %s", dir, strerror(errno));
}

static void remove_half(const struct keys *k)
{
	static const char *const names[] = {"ca.key",
					    "ca.pem",
					    "fleet.key",
					    "offline/root-1.key",
					    "offline/root-2.key",
					    "offline/root-3.key",
					    "root/1",
					    FLEET_ROOT,
					    "server.key",
					    "server.pem",
					    "admin",
					    "offline",
					    "root",
					    ""};
	char path[PATH_MAX];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (path_in(k, path, names[i]) >= 0)
			(void)remove(path);
}

static int run_init(const struct args *args)
{
	struct arena a = {0};
	struct fleet_conf c;
	struct keys k = {.dir = ""};
	umask(077);
	int rc = fleet_conf_of(args, &c, &a);
	if (rc >= 0 &&
	    snprintf(k.dir, sizeof k.dir, "%s.new-%ld", c.keys, (long)getpid()) >= (int)sizeof k.dir)
		rc = fail(E_USAGE, "--keys %s: the path is too long", c.keys);
	if (rc >= 0)
		rc = crypto_start();
	if (rc >= 0) {
		rc = make_all(&k, arg_str(args, "name", "hone-fleet"), arg_str(args, "host", NULL));
		if (rc >= 0)
			rc = put_in_place(&k, c.keys);
		if (rc < 0)
			remove_half(&k);
	}
	if (rc >= 0)
		rc = tell(args, &k, c.keys);
	free_keys(&k);
	arena_free(&a);
	return rc;
}

static const struct opt init_opts[] = {
    FLEET_OPT_KEYS,
    FLEET_OPT_CONFIG,
    FLEET_OPT_STATE,
    {"name", OPT_STR, "NAME", "name of the certificate authority"},
    {"host", OPT_STR, "HOST",
     "also a certificate for a server of this name or address: server.pem, server.key"},
    {NULL},
};

const struct cmd fleet_cmd_init = {
    .usage = "[--keys DIR] [--host HOST]",
    .summary = "make the keys of a fleet",
    .details =
	"Makes the certificate authority for boards, the fleet's key, three root keys of which two must sign "
	"a root document, the first such document, and an admin token. Each board needs a copy of that "
	"document, KEYS/" FLEET_ROOT ", as " TRUST_ROOT ". Nothing is ever overwritten.",
    .max_pos = 0,
    .opts = init_opts,
    .run = run_init,
    .name = "init",
};
