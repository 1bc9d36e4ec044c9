/* SPDX-License-Identifier: Apache-2.0 */
/* Which certificates a server may have: by the configured authority, for this host, valid today. */
#include "tests/lib/fleet_tree.h"

#include <microhttpd.h>

static struct tree tree;
static struct sync_sum sum;

static enum MHD_Result give_file(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
				 const char *version, const char *body, size_t *n, void **state)
{
	(void)ctx, (void)method, (void)version, (void)body, (void)n, (void)state;
	struct arena a = {0};
	struct blob b = {"", 0};
	char path[512];
	snprintf(path, sizeof path, "%s%s", tree.www, url);
	int rc = file_read(&a, path, 0, &b);
	struct MHD_Response *r =
	    MHD_create_response_from_buffer(b.n, (void *)(uintptr_t)b.p, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result queued = MHD_queue_response(c, rc < 0 ? 404 : 200, r);
	MHD_destroy_response(r);
	arena_free(&a);
	return queued;
}

struct host {
	struct MHD_Daemon *d;
	struct buf key, cert;
	char url[64];
};

static const char *own_pem(const struct private_key *key, struct buf *out)
{
	CHECK_OK(cert_write_ca(key, "itself", out));
	return buf_str(out);
}

/* Serves with a key of its own, whose certificate `ca` signs (NULL: that key itself). */
static void serve(struct host *h, const struct private_key *ca, const char *ca_pem, const char *name,
		  int64_t now_s, int years)
{
	struct private_key *key;
	struct public_key pub;
	struct arena a = {0};
	struct blob b;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct buf own = {0};
	*h = (struct host){0};
	CHECK_OK(private_key_make(&key));
	private_key_public(key, &pub);
	CHECK_OK(private_key_write(key, tree_path(&tree, "server.key")));
	CHECK_OK(file_read(&a, tree_path(&tree, "server.key"), 0, &b));
	buf_add(&h->key, b.p, b.n);
	if (ca)
		CHECK_OK(cert_write(ca, ca_pem, &pub, name, name, now_s, years, &h->cert));
	else
		CHECK_OK(cert_write(key, own_pem(key, &own), &pub, name, name, now_s, years, &h->cert));
	CHECK(unlink(tree_path(&tree, "server.key")) == 0);
	h->d =
	    MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_TLS, 0, NULL, NULL, give_file, NULL,
			     MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_HTTPS_MEM_KEY,
			     buf_str(&h->key), MHD_OPTION_HTTPS_MEM_CERT, buf_str(&h->cert), MHD_OPTION_END);
	if (h->d)
		snprintf(h->url, sizeof h->url, "https://127.0.0.1:%d",
			 (int)MHD_get_daemon_info(h->d, MHD_DAEMON_INFO_BIND_PORT)->port);
	private_key_free(key);
	buf_free(&own);
	arena_free(&a);
}

static void end(struct host *h)
{
	if (h->d)
		MHD_stop_daemon(h->d);
	buf_free(&h->key);
	buf_free(&h->cert);
}

TEST(certificates)
{
	static const struct {
		const char *what, *host;
		enum { OURS, OTHERS, OWN } by;
		int64_t years_ago;
		int years, rc;
	} rows[] = {
	    {"by our authority, for this host", "127.0.0.1", OURS, 0, 10, E_OK},
	    {"for another host", "fleet.example", OURS, 0, 10, E_WRONG},
	    {"for another address", "127.0.0.2", OURS, 0, 10, E_WRONG},
	    {"by another authority", "127.0.0.1", OTHERS, 0, 10, E_WRONG},
	    {"by itself", "127.0.0.1", OWN, 0, 10, E_WRONG},
	    {"of the past", "127.0.0.1", OURS, 10, 1, E_WRONG},
	};
	int n = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct private_key *ca, *other;
		struct buf ca_pem = {0}, other_pem = {0};
		struct host h;
		tree_open(&tree);
		CHECK_OK(private_key_make(&ca));
		CHECK_OK(private_key_make(&other));
		CHECK_OK(cert_write_ca(ca, "ours", &ca_pem));
		CHECK_OK(cert_write_ca(other, "ours", &other_pem)); /* an authority of the same name */
		tree_write(&tree, "ca.pem", ca_pem.p, ca_pem.n);
		const struct private_key *by = rows[i].by == OURS ? ca : rows[i].by == OTHERS ? other : NULL;
		serve(&h, by, buf_str(rows[i].by == OURS ? &ca_pem : &other_pem), rows[i].host,
		      (int64_t)time(NULL) - rows[i].years_ago * 366 * 86400, rows[i].years);
		if (!h.d) {
			end(&h);
			tree_close(&tree);
			SKIP("this libmicrohttpd has no TLS");
		}
		tree.conf.server = h.url;
		tree.conf.ca = strdup(tree_path(&tree, "ca.pem"));
		int rc = tree_sync(&tree, &sum);
		if (rc != rows[i].rc) {
			printf("a certificate %s: got %s (%s)\n", rows[i].what,
			       rc < 0 ? err_name(rc) : "good", rc < 0 ? err_text() : "");
			test_bad = 1;
		}
		CHECK(rc < 0 ? tree_has(&tree, 0, 3) == 0 && !sum.offline : tree_has(&tree, 0, 3) == 3);
		n += rc < 0;
		free((char *)(uintptr_t)tree.conf.ca);
		end(&h);
		buf_free(&ca_pem);
		buf_free(&other_pem);
		private_key_free(ca);
		private_key_free(other);
		tree_close(&tree);
	}
	printf("%d certificates refused\n", n);
}

/* Without `ca`, the system's authorities count, and none of them signed ours. */
TEST(the_systems_authorities)
{
	struct host h;
	struct private_key *ca;
	struct buf pem = {0};
	tree_open(&tree);
	CHECK_OK(private_key_make(&ca));
	CHECK_OK(cert_write_ca(ca, "ours", &pem));
	serve(&h, ca, buf_str(&pem), "127.0.0.1", (int64_t)time(NULL), 10);
	tree.conf.server = h.url;
	if (h.d)
		CHECK(tree_sync(&tree, &sum) == E_WRONG);
	end(&h);
	private_key_free(ca);
	buf_free(&pem);
	tree_close(&tree);
}

/* A server that speaks HTTP where HTTPS is configured. */
TEST(no_tls_at_all)
{
	struct web w = {0};
	char url[64];
	tree_open(&tree);
	w.dir = tree.www;
	web_start(&w);
	snprintf(url, sizeof url, "https://127.0.0.1:%d", w.port);
	tree.conf.server = url;
	CHECK(tree_sync(&tree, &sum) < 0 && tree_has(&tree, 0, 3) == 0);
	web_stop(&w);
	tree_close(&tree);
}

TEST_MAIN
