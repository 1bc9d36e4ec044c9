/* SPDX-License-Identifier: Apache-2.0 */
/* What another slice promises a task: this decides which task gets the next slice.
 *
 * After Ansor's gradient (OSDI'20, section 6.2), promise = uses x time x e / cost of a slice, in ns of the
 * network's time saved per ns spent, with
 *
 *   e    = 0.2 x share of its time that the last slice saved + 0.8 x room x rate[age]
 *   room = min(1 - roofline / time, 1 - exp(-2 sd))
 *   rate = share of the room that slices of that age saved so far, of all tasks
 *
 * Instead of Ansor's fixed optimism (time falls to nothing at the pace of time / trials) the rate is learnt:
 * a task's first slices gain most, and the gains of the tasks before it show what to expect. The rate starts
 * from a guess for networks whose default schedules are near the best. sd is the cost model's for the
 * incumbent: the search expects nothing more than two deviations below it. A task at its roofline has no
 * room; the rate of a task without gains falls with its age. */
#ifndef SEARCH_PROMISE_H
#define SEARCH_PROMISE_H

enum { PROMISE_AGES = 5 };

struct promise {
	double saved[PROMISE_AGES], room[PROMISE_AGES]; /* sums over slices; all 0 at first */
};

/* Share of a task's time that could be saved; roofline_ns 0: unknown. */
double promise_room(double ns, double roofline_ns, double sd);
/* Learns that slice number `slice` (from 0) of a task with that room saved this share of its time. */
void promise_learn(struct promise *p, int slice, double room, double saved);
/* Predicts the share that slice number `slice` will save; last: the share that the slice before it saved. */
double promise_expect(const struct promise *p, int slice, double room, double last);

#endif
