/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/interrupt.h"
#include "agent/control/leash.h"
#include "platform/base/log.h"
#include "platform/base/until.h"

volatile sig_atomic_t interrupt_stop;
static volatile sig_atomic_t by_user;    /* SIGINT came */
static volatile sig_atomic_t by_manager; /* SIGTERM came */
static volatile int64_t first_ns[2];  /* when SIGTERM and SIGINT came; 0: not yet */

/* One press of Ctrl-C may arrive twice, from the terminal and from a program such as timeout that passes it
 * on. Clocks may be read in a signal handler (POSIX: clock_gettime). */
#define SAME_PRESS_NS (NS_PER_S / 2)

static void on_signal(int sig)
{
	bool user = sig == SIGINT;
	int64_t now_ns = clock_now(&clock_real);
	interrupt_stop = 1;
	by_user |= user;
	by_manager |= !user;
	if (!first_ns[user])
		first_ns[user] = now_ns;
	else if (now_ns - first_ns[user] > SAME_PRESS_NS) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
}

void interrupt_catch(void)
{
	static struct until until;
	const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	until = (struct until){.clock = &clock_real, .end_ns = INT64_MAX, .stop = &interrupt_stop};
	until_set(&until);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

bool interrupted(void)
{
	return interrupt_stop;
}

int interrupt_status(int rc)
{
	return interrupt_status_of(rc, "measured");
}

int interrupt_status_of(int rc, const char *done)
{
	log_live(NULL);
	bool stopped = by_user || (by_manager && !leash_is_child());
	if (!stopped || (rc < 0 && rc != E_STOPPED))
		return rc;
	if (rc == E_STOPPED) {
		(void)fail(rc, "%s; nothing was %s", by_user ? "interrupted" : "terminated", done);
		log_info("hone: %s", err_text());
	}
	return by_user ? INTERRUPT_STATUS : TERMINATE_STATUS;
}
