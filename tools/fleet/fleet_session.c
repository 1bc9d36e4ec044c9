/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of signed-in operators. Table sessions: id (HMAC of the cookie, by the token's hash),
 * expires_s. */
#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_form.h"

#include <stdio.h>
#include <string.h>

#define SECRET_HEX 64

static int id_of(const struct fleet *f, const char *cookie, char id[65])
{
	struct sha256 mac;
	int rc = crypto_hmac(f->admin->token.b, sizeof f->admin->token.b, cookie, strlen(cookie), &mac);
	if (rc >= 0)
		hex_write(mac.b, sizeof mac.b, id);
	return rc;
}

static bool cookie_of(const struct fleet *f, const struct fleet_request *q, char cookie[ADMIN_COOKIE])
{
	return f->admin->has && cookie_get(q->cookie, SESSION_COOKIE, cookie, ADMIN_COOKIE) &&
	       strlen(cookie) == SECRET_HEX && strspn(cookie, "0123456789abcdef") == SECRET_HEX;
}

int session_of(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct admin_session *out)
{
	char cookie[ADMIN_COOKIE], id[65];
	struct sha256 mac;
	*out = (struct admin_session){0};
	if (!cookie_of(f, q, cookie))
		return E_OK;
	int rc = id_of(f, cookie, id);
	if (rc >= 0)
		rc = store_exec(c, "SELECT expires_s FROM sessions WHERE id = $1 AND expires_s > $2",
				DB_PARAMS(DB_T(id), DB_I(f->date_s())), NULL, NULL);
	if (rc <= 0)
		return rc;
	rc = crypto_hmac(cookie, strlen(cookie), "form", 4, &mac);
	if (rc >= 0)
		hex_write(mac.b, sizeof mac.b, out->csrf);
	out->in = rc >= 0;
	return rc;
}

int session_begin(struct fleet *f, struct db_conn *c, char cookie[ADMIN_COOKIE])
{
	uint8_t secret[SECRET_HEX / 2];
	char id[65];
	int rc = crypto_random(secret, sizeof secret);
	if (rc < 0)
		return rc;
	hex_write(secret, sizeof secret, cookie);
	rc = id_of(f, cookie, id);
	if (rc >= 0)
		rc = store_exec(c, "DELETE FROM sessions WHERE expires_s <= $1", DB_PARAMS(DB_I(f->date_s())),
				NULL, NULL);
	return rc < 0 ? rc
		      : store_exec(c, "INSERT INTO sessions (id, expires_s) VALUES ($1, $2)",
				   DB_PARAMS(DB_T(id), DB_I(f->date_s() + ADMIN_SESSION_S)), NULL, NULL);
}

int session_end(struct fleet *f, struct db_conn *c, const struct fleet_request *q)
{
	char cookie[ADMIN_COOKIE], id[65];
	if (!cookie_of(f, q, cookie))
		return E_OK;
	int rc = id_of(f, cookie, id);
	return rc < 0 ? rc
		      : store_exec(c, "DELETE FROM sessions WHERE id = $1", DB_PARAMS(DB_T(id)), NULL, NULL);
}
