/* SPDX-License-Identifier: Apache-2.0 */
/* Thermal zones and batteries. */
#include "platform/machine/vitals_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THERMAL "/sys/class/thermal"
#define SUPPLY "/sys/class/power_supply"

enum {
	TRIPS = 16,
	ASSUMED_MC = 85000,
	TRIP_LEAST_MC = 20000,
	TRIP_MOST_MC = 130000,
	TEMP_LEAST_MC = -60000,
	TEMP_MOST_MC = 200000,
};

/* Zones that report a constant temperature. */
static const char *const constant_zones[] = {"PMIC-Die", "PMIC-DIE", "Tdiode_tegra_dummy", NULL};
static const char *const trip_kinds[] = {"passive", "hot", "critical", NULL};

static bool is_one_of(const char *word, const char *const *list)
{
	while (*list && strcmp(*list, word))
		list++;
	return *list;
}

/* INT_MAX: no trip point counts. */
static int lowest_trip(const char *root, const char *zone)
{
	int least = INT_MAX;
	for (int i = 0; i < TRIPS; i++) {
		char leaf[48], kind[32];
		int64_t mc;
		snprintf(leaf, sizeof leaf, "trip_point_%d_type", i);
		if (!vitals_leaf_line(root, THERMAL, zone, leaf, kind, sizeof kind) ||
		    !is_one_of(kind, trip_kinds))
			continue;
		snprintf(leaf, sizeof leaf, "trip_point_%d_temp", i);
		if (vitals_leaf_number(root, THERMAL, zone, leaf, &mc) && mc >= TRIP_LEAST_MC &&
		    mc <= TRIP_MOST_MC && mc < least)
			least = (int)mc;
	}
	return least;
}

static void drop_without_trip(struct heat *h)
{
	int n = 0;
	for (int i = 0; i < h->n; i++)
		if (h->zone[i].limit_mc < INT_MAX)
			h->zone[n++] = h->zone[i];
		else
			close(h->zone[i].fd);
	h->n = n;
}

static void add_zone(struct heat *h, const char *root, const char *name)
{
	struct zone z = {.limit_mc = lowest_trip(root, name)};
	if (!vitals_leaf_line(root, THERMAL, name, "type", z.name, sizeof z.name))
		snprintf(z.name, sizeof z.name, "%.31s", name);
	if (is_one_of(z.name, constant_zones) || (z.fd = vitals_open_leaf(root, THERMAL, name, "temp")) < 0)
		return;
	h->zone[h->n++] = z;
}

void heat_open(struct heat *h, const char *root, bool raspberry)
{
	char name[ZONES][SYSFILE_NAME];
	bool told = false;
	int n = sysfile_list(root, THERMAL, "thermal_zone", name, ZONES);
	for (int i = 0; i < n; i++)
		add_zone(h, root, name[i]);
	for (int i = 0; i < h->n; i++)
		told |= h->zone[i].limit_mc < INT_MAX;
	if (told)
		drop_without_trip(h);
	h->assumed = !told;
	for (int i = 0; i < h->n; i++)
		if (!told || (raspberry && h->zone[i].limit_mc > ASSUMED_MC))
			h->zone[i].limit_mc = ASSUMED_MC;
}

void heat_read(const struct heat *h, struct vitals *v)
{
	for (int i = 0; i < h->n; i++) {
		const struct zone *z = &h->zone[i];
		int64_t mc;
		if (!sysfile_value(z->fd, 10, &mc) || mc < TEMP_LEAST_MC || mc > TEMP_MOST_MC)
			continue;
		int headroom = z->limit_mc - (int)mc;
		if (v->has & VITAL_HEAT && headroom >= v->headroom_mc)
			continue;
		v->has |= VITAL_HEAT;
		v->headroom_mc = headroom;
		v->temp_mc = (int)mc;
		v->trip_assumed = h->assumed;
		memcpy(v->zone, z->name, sizeof v->zone);
	}
}

/* Excludes batteries of devices such as a mouse: their scope is Device. */
static bool is_battery(const char *root, const char *name)
{
	char word[32];
	return vitals_leaf_line(root, SUPPLY, name, "type", word, sizeof word) && !strcmp(word, "Battery") &&
	       (!vitals_leaf_line(root, SUPPLY, name, "scope", word, sizeof word) || strcmp(word, "Device"));
}

void batteries_open(struct batteries *b, const char *root)
{
	enum { SUPPLIES = 16 };
	char name[SUPPLIES][SYSFILE_NAME];
	int n = sysfile_list(root, SUPPLY, "", name, SUPPLIES);
	for (int i = 0; i < n && b->n < BATTERIES; i++)
		if (is_battery(root, name[i]))
			b->battery[b->n++] =
			    (struct battery){vitals_open_leaf(root, SUPPLY, name[i], "capacity"),
					     vitals_open_leaf(root, SUPPLY, name[i], "status")};
}

void batteries_read(const struct batteries *b, struct vitals *v)
{
	for (int i = 0; i < b->n; i++) {
		char status[32];
		int64_t pct;
		sysfile_read(b->battery[i].status, status, sizeof status);
		v->discharging |= !strncmp(status, "Discharging", 11);
		if (!sysfile_value(b->battery[i].capacity, 10, &pct) || pct < 0 || pct > 100)
			continue;
		if (!(v->has & VITAL_BATTERY) || pct < v->battery_pct)
			v->battery_pct = (int)pct;
		v->has |= VITAL_BATTERY;
	}
}
