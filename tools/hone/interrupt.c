/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/interrupt.h"
#include "platform/base/log.h"
#include "platform/base/until.h"

volatile sig_atomic_t interrupt_stop;
static volatile sig_atomic_t by_user; /* SIGINT came */

static void on_signal(int sig)
{
	interrupt_stop = 1;
	if (sig == SIGINT)
		by_user = 1;
}

void interrupt_catch(void)
{
	static struct until until;
	const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
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
	log_live(NULL);
	if (!by_user || (rc < 0 && rc != E_STOPPED))
		return rc;
	if (rc == E_STOPPED)
		log_info("hone: interrupted; nothing was measured");
	return INTERRUPT_STATUS;
}
