/* SPDX-License-Identifier: Apache-2.0 */
/* A cache whose folder another process writes. */
#include "agent/cache/cache_parts.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"

#define LOCK_WAIT_NS NS_PER_S

static int tell(struct cache *c, const struct put *p)
{
	return c->through->put(c->through->ctx, p->h.type, p->h.key, c->bytes.p + p->at, p->h.n);
}

static bool is_gone(const struct cache *c)
{
	return !c->through->alive(c->through->ctx);
}

/* A put that the writer refused would be refused again, so only this process keeps it. The writer does not
 * take code from every process. */
static bool is_only_ours(struct cache *c, struct put *p, int rc)
{
	if (rc == E_IO || rc == E_BUSY || rc == E_NOMEM || is_gone(c))
		return false;
	if (p->of == CACHE_CODE && !c->told_code) {
		log_info("hone: %s; the code is built again from its records when it is needed", err_text());
		c->told_code = true;
	}
	return p->ours = true;
}

/* If the writer is gone, the next flush handles it. */
int cache_through_put(struct cache *c)
{
	struct put *p = &c->put[c->nputs - 1];
	int rc = c->unsaid ? E_OK : tell(c, p);
	if (rc >= 0)
		return E_OK;
	if (is_only_ours(c, p, rc))
		return p->of == CACHE_CODE ? E_OK : rc;
	c->unsaid = true;
	return is_gone(c) ? E_OK : fail_in(E_IO, "cache %s", cache_dir(c));
}

static int tell_all(struct cache *c)
{
	for (int i = 0; i < c->nputs; i++) {
		struct put *p = &c->put[i];
		int rc = p->done || p->ours ? E_OK : tell(c, p);
		if (rc < 0 && !is_only_ours(c, p, rc))
			return fail_in(E_IO, "cache %s", cache_dir(c));
	}
	c->unsaid = false;
	return E_OK;
}

/* From now on durable records are read from the folder. If one is missing there and was not forgotten, this
 * process had read the folder before the commit, so it reads all again. */
static int settle(struct cache *c)
{
	bool missing = false;
	for (int i = 0; i < c->nputs; i++) {
		struct put *p = &c->put[i];
		if (p->done || p->ours)
			continue;
		p->done = true;
		cache_slot(c, p->of, p->h.key)->seg = NOWHERE;
		c->waiting--;
	}
	int rc = cache_layers_follow(c);
	for (int i = 0; i < c->nputs && !missing; i++) {
		const struct slot *s = cache_slot(c, c->put[i].of, c->put[i].h.key);
		missing = s->type && s->seg == NOWHERE && s->n != GONE;
	}
	if (rc >= 0 && missing)
		rc = cache_reload(c);
	if (!c->waiting) {
		c->nputs = 0;
		buf_free(&c->bytes);
	}
	return rc < 0 ? rc : E_OK;
}

/* Takes the lock and writes all that waits. */
static int take_over(struct cache *c)
{
	const char *dir = cache_dir(c);
	int rc = cache_lock(c, dir, LOCK_WAIT_NS);
	if (rc < 0)
		return fail_in(E_IO, "honed, which wrote this cache, has ended");
	log_info("hone: honed, which wrote cache %s, has ended: this process writes it from now on", dir);
	c->through = NULL;
	c->memory = false;
	for (int i = 0; i < c->nputs; i++)
		c->put[i].ours = false;
	rc = cache_reload(c);
	return rc < 0 ? rc : cache_flush(c);
}

static int commit(struct cache *c)
{
	int rc = c->unsaid ? tell_all(c) : E_OK;
	return rc < 0 ? rc : c->through->commit(c->through->ctx);
}

int cache_through_flush(struct cache *c)
{
	const struct cache_through *t = c->through;
	if (!c->waiting)
		return E_OK;
	int rc = commit(c);
	if (rc < 0 && is_gone(c)) {
		c->unsaid = true;
		rc = t->again(t->ctx);
		if (rc == E_NOTFOUND)
			return take_over(c);
		if (rc >= 0)
			rc = commit(c);
	}
	return rc < 0 ? rc : settle(c);
}
