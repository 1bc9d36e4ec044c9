/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's inside: each family opens what is there and reads it; -1 stands for a file that is not. */
#ifndef PLATFORM_VITALS_PARTS_H
#define PLATFORM_VITALS_PARTS_H

#include "platform/machine/sysfile.h"
#include "platform/machine/vitals.h"

/* On larger machines the first of each kind speak for all: a look must stay short. */
enum { ZONES = 24, POLICIES = 16, COOLERS = 32, COUNTERS = 8, BATTERIES = 4, STAT_BYTES = 8192 };

struct heat {
	int n;
	struct zone {
		int fd, limit_mc;
		char name[32];
	} zone[ZONES];
	bool assumed;
};

struct brakes { /* what slows the board down */
	int firmware, alarm;
	unsigned sticky, now, ever; /* of the last look, enum throttle; of all */
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
	bool varies, held; /* whatever the governor says, as on x86; every governor holds */
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
void clocks_look(struct clocks *c); /* at the governors */
void load_open(struct load *l, const char *root);
void load_read(struct load *l, struct vitals *v);
void batteries_open(struct batteries *b, const char *root);
void batteries_read(const struct batteries *b, struct vitals *v);

/* Of "%s/%s/%s" below root. */
int vitals_open_leaf(const char *root, const char *dir, const char *name, const char *leaf);
bool vitals_leaf_line(const char *root, const char *dir, const char *name, const char *leaf, char *out,
		      int n);
bool vitals_leaf_number(const char *root, const char *dir, const char *name, const char *leaf, int64_t *out);

#endif
