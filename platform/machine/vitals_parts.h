/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the reader: each family opens the files that exist and reads them; -1 stands for an absent
 * file. */
#ifndef PLATFORM_VITALS_PARTS_H
#define PLATFORM_VITALS_PARTS_H

#include "platform/machine/sysfile.h"
#include "platform/machine/vitals.h"

/* On larger machines the first of each kind represent all, because a glance must stay short. */
enum { ZONES = 24, POLICIES = 16, COOLERS = 32, COUNTERS = 8, BATTERIES = 4, STAT_BYTES = 8192 };

struct heat {
	int n;
	struct zone {
		int fd, limit_mc;
		char name[32];
	} zone[ZONES];
	bool assumed;
};

struct brakes { /* throttling sources */
	int firmware, alarm;
	unsigned sticky, now, ever; /* enum throttle: sticky bits and state at the last look; all since
				       boot */
	bool looked;
	int64_t flips;
	int ncounters;
	struct counter {
		int fd;
		int64_t last;
	} counter[COUNTERS];
	int ncoolers, cooler[COOLERS];
};

struct clocks {
	int n;
	struct policy {
		int now, most, governor;
	} policy[POLICIES];
	bool varies, held; /* varies: under any governor, as on x86; held: by all governors */
	int gpu_now, gpu_most;
};

struct load {
	int stat, meminfo, pressure[3];
	char text[STAT_BYTES];
};

struct batteries {
	int n;
	struct battery {
		int capacity, status;
	} battery[BATTERIES];
};

struct vitals_reader {
	struct load load;
	struct heat heat;
	struct brakes brakes;
	struct clocks clocks;
	struct batteries batteries;
};

void heat_open(struct heat *h, const char *root, bool raspberry);
void heat_read(const struct heat *h, struct vitals *v);
void brakes_open(struct brakes *b, const char *root);
void brakes_read(struct brakes *b, struct vitals *v);
void clocks_open(struct clocks *c, const char *root);
void clocks_read(const struct clocks *c, struct vitals *v);
void clocks_look(struct clocks *c); /* reads the governors */
void load_open(struct load *l, const char *root);
void load_read(struct load *l, struct vitals *v);
void batteries_open(struct batteries *b, const char *root);
void batteries_read(const struct batteries *b, struct vitals *v);

/* Opens "%s/%s/%s" below root. */
int vitals_open_leaf(const char *root, const char *dir, const char *name, const char *leaf);
bool vitals_leaf_line(const char *root, const char *dir, const char *name, const char *leaf, char *out,
		      int n);
bool vitals_leaf_number(const char *root, const char *dir, const char *name, const char *leaf, int64_t *out);

#endif
