/* SPDX-License-Identifier: Apache-2.0 */
/* What another slice promises a task: where the box goes next.
 *
 * After Ansor's gradient (OSDI'20, section 6.2), promise = uses x time x e / cost of a slice, in ns of the
 * network's time saved per ns spent, with
 *
 *   e    = 0.2 x share of its time that the last slice saved + 0.8 x room x rate[age]
 *   room = min(1 - roofline / time, 1 - exp(-2 sd))
 *   rate = share of the room that slices of that age saved so far, of all tasks
 *
 * Instead of Ansor's fixed optimism (time goes to nothing at the pace of time / trials) the rate is learnt: a
 * task's first slices bring most, and what the tasks before it gained by theirs tells what to expect; it
 * begins at a guess for networks whose default schedules are near the best. sd is the cost
 * model's of the incumbent: nothing is believed to lie more than two deviations below it. A task at its
 * roofline has no room; one that brings nothing grows old. */
#ifndef SEARCH_PROMISE_H
#define SEARCH_PROMISE_H

enum { PROMISE_AGES = 5 };

struct promise {
	double saved[PROMISE_AGES], room[PROMISE_AGES]; /* sums over slices; all 0 at first */
};

/* Share of a task's time that could be saved; roofline_ns 0: unknown. */
double promise_room(double ns, double roofline_ns, double sd);
/* Slice number `slice` (from 0) of a task with that room saved this share of its time. */
void promise_learn(struct promise *p, int slice, double room, double saved);
/* Share that slice number `slice` will save; last: what the one before saved. */
double promise_expect(const struct promise *p, int slice, double room, double last);

#endif
