/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/synced.h"

#include "agent/control/conf.h"
#include "agent/sync/sync_words.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "tools/hone/daemon.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int synced_conf(const char *path, struct arena *a, struct sync_conf *out, const char **cache)
{
	struct conf conf;
	int rc = conf_read(path ? path : CONF_FILE, a, &conf);
	if (rc >= 0)
		rc = sync_conf_read(&conf, out);
	if (rc >= 0 && cache)
		*cache = conf.cache ? conf.cache : CACHE_DAEMON;
	return rc == E_USAGE ? fail_in(E_CORRUPT, "configuration") : rc;
}

json_t *synced_status(const struct sync_conf *c)
{
	struct buf b = {0};
	char boot[64];
	sync_boot(boot, sizeof boot);
	sync_status(c, &(struct sync_now){.clock = &clock_real, .date_s = time(NULL), .boot = boot}, &b);
	json_t *j = buf_ok(&b) ? json_loads(buf_str(&b), 0, NULL) : NULL;
	buf_free(&b);
	return j;
}

bool synced_failed(const json_t *s)
{
	return daemon_num(s, "ran_s", 0) > 0 && *daemon_text(s, "error", "") && !daemon_flag(s, "offline");
}

/* Writes the command that takes a fleet's files from a folder, which the user chooses. */
static void put_folder_command(const char *config, struct buf *out)
{
	buf_puts(out, "hone sync --folder DIR");
	if (config)
		buf_puts(out, " --config ");
	if (config)
		shell_path(out, config);
}

static void tell_folder(const char *config)
{
	struct buf b = {0};
	put_folder_command(config, &b);
	next_flush();
	log_info("a fleet's files on a stick or a share are taken by `%s`", buf_str(&b));
	buf_free(&b);
}

int synced_no_fleet(const char *config)
{
	struct buf b = {0};
	put_folder_command(config, &b);
	int rc = fail(E_NOTFOUND,
		      "no fleet is configured: set server = URL in [sync] of %s, or take a fleet's files "
		      "from a stick or a share: `%s`",
		      config ? config : CONF_FILE, buf_str(&b));
	buf_free(&b);
	return rc;
}

/* Another run now would find what this one has found. If it failed, its error says what to do. */
static void tell_step(const struct synced_how *h)
{
	if (h->ran && h->good)
		next_say("hone status --cache %s", h->cache);
	else if (h->ran)
		return;
	else if (h->fleet && h->config)
		next_say("hone sync --now --config %s", h->config);
	else if (h->fleet)
		next_say("hone sync --now");
	else
		tell_folder(h->config);
}

void synced_tell(const json_t *s, const struct synced_how *h)
{
	if (h->nothing)
		table_say("no fleet is configured: set server = URL in [sync] of %s",
			  h->config ? h->config : CONF_FILE);
	else if (!json_object_size(s))
		printf("hone-sync has not run yet\n");
	sync_words(s);
	if (!h->ran && synced_failed(s)) {
		next_flush();
		log_info("the last run failed: correct the cause that is named above, then run it again");
	}
	tell_step(h);
}
