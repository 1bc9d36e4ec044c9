/* SPDX-License-Identifier: Apache-2.0 */
/* The section [sync] of honed.conf (agent/control/conf.h). hone-sync works by it; honed only checks it, and
 * runs on if it has mistakes. */
#ifndef AGENT_SYNC_CONF_H
#define AGENT_SYNC_CONF_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum channel { CHANNEL_CANARY, CHANNEL_EARLY, CHANNEL_ALL, CHANNELS };
extern const char *const channel_names[CHANNELS]; /* "canary", "early", "all" */
int channel_parse(const char *name, enum channel *out) MUST_CHECK;

struct sync_conf {          /* one field for each key of [sync] in honed.conf */
	const char *server; /* see sync_server_check; NULL: none is configured */
	const char *ca;     /* file with the server's authority; NULL: the system's */
	const char *root;   /* NULL: TRUST_ROOT */
	const char *state;  /* NULL: $STATE_DIRECTORY, else SYNC_STATE */
	const char *token;  /* file with a join token */
	const char *name;   /* name at which the board joins; NULL: its host name */
	const char *proxy;  /* NULL: from the environment */
	enum channel channel;
	bool has_channel;   /* false: channel_of the board's id */
	bool push;          /* upload = yes */
	int64_t every_ns;   /* default 6h; the snapshot may ask for more or less, within a factor of 4 */
	int64_t day_bytes;  /* default 10M; 0: no limit */
	int64_t rate_bytes; /* a second; 0: no limit */
	int64_t run_ns;     /* default 2m: deadline of a run */
	const char *watch;  /* folder into which packs are put (agent/sync/pack.h); NULL: none */
};

#define SYNC_CERT "cert.pem" /* in the state folder, once the board has joined */

struct conf;
/* Reads the keys server, ca, root, state, token, name, proxy, channel, upload (yes, no), every (6h), run
 * (2m), day (10M), rate (0) and watch; configs/honed.conf shows each. E_USAGE: the text "FILE:LINE: ..."
 * names the key and the allowed values. The texts in *out are owned by c. */
int sync_conf_read(const struct conf *c, struct sync_conf *out) MUST_CHECK;
bool sync_conf_has(const char *key);
/* Checks one key and its value as sync_conf_read does; the text has no FILE:LINE. */
int sync_conf_check(const char *key, const char *value) MUST_CHECK;
/* Appends a line "FILE:LINE: ..." for each key without which hone-sync cannot do what others of c demand, and
 * for each file that c names and that is not there. A board that has joined needs no token. Returns their
 * number; 0 too if a key of c is a mistake, which conf_check reports. */
int sync_conf_gaps(const struct conf *c, struct buf *mistakes) MUST_CHECK;
/* Allows https://HOST[:PORT][/PATH] (with the files of agent/sync/snapshot.h, and enrol and records), http://
 * to this machine only, or the absolute path of a folder. Else E_USAGE. */
int sync_server_check(const char *server) MUST_CHECK;
bool sync_is_folder(const char *server);
const char *sync_state_folder(const struct sync_conf *c);
enum { SYNC_NAME = 64 }; /* bytes of a board's name, with the NUL: letters, digits, '-', '.', '_' */
bool sync_name_good(const char *name);
/* The board's name: the configured one, else `host` (NULL: this machine's host name), cut, and with '-' for
 * each other character; if nothing of it names a machine (empty, localhost, all '-'), the board's id. */
void sync_board_name(const struct sync_conf *c, const char *host, const char *id, char out[SYNC_NAME]);

#endif
