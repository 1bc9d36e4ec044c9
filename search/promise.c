/* SPDX-License-Identifier: Apache-2.0 */
#include "search/promise.h"

#include <math.h>

#define ALPHA 0.2 /* Ansor's weight of the last slice's saving */
#define WEIGHT 1. /* of first_rate, in tasks whose whole time could be saved */

/* First guess of the rate for slices 0, 1, 2-3, 4-7, and later. */
static const double first_rate[PROMISE_AGES] = {0.1, 0.05, 0.03, 0.015, 0.008};

static int age_of(int slice)
{
	int age = 0;
	while (age + 1 < PROMISE_AGES && slice >= 1 << age)
		age++;
	return age;
}

double promise_room(double ns, double roofline_ns, double sd)
{
	double above = ns > 0 ? 1 - roofline_ns / ns : 1, believed = 1 - exp(-2 * sd);
	double room = above < believed ? above : believed;
	return room > 0 ? room : 0;
}

void promise_learn(struct promise *p, int slice, double room, double saved)
{
	int age = age_of(slice);
	p->room[age] += room;
	p->saved[age] += saved > 0 ? saved : 0;
}

double promise_expect(const struct promise *p, int slice, double room, double last)
{
	int age = age_of(slice);
	double rate = (p->saved[age] + WEIGHT * first_rate[age]) / (p->room[age] + WEIGHT);
	return ALPHA * (last > 0 ? last : 0) + (1 - ALPHA) * room * rate;
}
