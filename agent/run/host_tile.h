/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of reductions in the portable path, compiled for several vector widths; the best that the
 * machine has is taken. Each works on a tile of accumulators in registers: a few rows of up to TILE_WIDTH
 * floats. Addresses come from tables of offsets, one entry for each reduction point, so that a window of any
 * shape, stride and dilation, and any layout, is one loop. */
#ifndef AGENT_HOST_TILE_H
#define AGENT_HOST_TILE_H

#include "kernels/task/task.h"

enum { TILE_ROWS = 16, TILE_GROUP_ROWS = 5, TILE_WIDTH = 64 };
enum { TILE_LEAST = 4, TILE_LANES = 16 }; /* lanes: at least, at most */

/* Floats of the vectors that this process may use: 4, 8 or 16; fewer than the machine has with $HONE_ISA
 * (platform/machine/target.h). */
int tile_lanes(void);
/* Floats of a row that tile_outer works on at once, with so many lanes: vectors that rows share are fetched
 * best from where so many of each point follow those of the point before. */
int tile_wide(int lanes);

/* A tile: `rows` <= TILE_ROWS rows of `width` <= TILE_WIDTH accumulators, each row `pitch` floats, a
 * multiple of tile_lanes(), behind the one before; those behind `width` become anything. Each call adds
 * `points` reduction points. */
struct tile {
	float *acc;
	int rows, pitch, width;
	int lanes; /* of the vectors: tile_lanes() or fewer */
	int64_t points;
};

/* acc[r][x] += s[row[r] + ds[p]] * v[dv[p] + x]: all rows share a vector, each has a scalar of its own. There
 * may be any number of rows. */
void tile_outer(const struct tile *t, const float *s, const int64_t *row, const int64_t *ds, const float *v,
		const int64_t *dv);
/* acc[g * rows + r][x] += s[row[r] + ds[p]] * v[g][dv[p] + x]: each group of rows has a vector of its own,
 * and the groups have their scalars in common. rows <= TILE_GROUP_ROWS, width <= lanes; there may be any
 * number of groups. */
void tile_groups(const struct tile *t, int groups, const float *s, const int64_t *row, const int64_t *ds,
		 const float *const v[], const int64_t *dv);
/* acc[r][x] += v[r][dv[p] + x * along] * w[dw[p] + x], or, if !vector, * w[dw[p]]: all rows share w. */
void tile_rows(const struct tile *t, const float *const v[], const int64_t *dv, int64_t along, const float *w,
	       const int64_t *dw, bool vector);
/* acc[r][x] = acc[r][x] comb v[r][dv[p] + x * along]. */
void tile_fold(const struct tile *t, enum combiner comb, const float *const v[], const int64_t *dv,
	       int64_t along);

#endif
