/* SPDX-License-Identifier: Apache-2.0 */
/* State of a launch: ptx_run.c schedules its warps, ptx_mem.c does their accesses and asynchronous copies,
 * ptx_shadow.c finds races.
 *
 * Order is kept in vector clocks, one for each warp: clock[v] is the last moment of warp v that this warp is
 * ordered behind; its own entry is its present moment. A barrier joins the clocks of its warps and begins a
 * new moment. An access is ordered behind an earlier one of another warp if it knows that one's moment, and
 * behind one of another lane of its own warp if that was in an earlier moment.
 *
 * The shadow has a cell for each `granule` bytes of shared memory: the last write, and two reads since then.
 * Two suffice: of three warps that read in one moment, a fourth access that is not ordered behind the third
 * is not ordered behind one of the first two either, because barriers of the whole block order all or none.
 */
#ifndef TESTS_PTX_EXEC_H
#define TESTS_PTX_EXEC_H

#include "tests/lib/ptx_parts.h"

#include <setjmp.h>

/* kind << 30 | thread << 20 | moment */
enum { C_NONE, C_PLAIN, C_ATOMIC, C_COPY, C_LANES = 2 }; /* a read of several lanes of a warp: C_LANES */
enum { MOMENT_BITS = 20, MOMENTS = 1 << MOMENT_BITS };
struct ptx_cell {
	uint32_t write, read[2];
};

/* Of global memory, in a hash table. */
struct ptx_global {
	uint64_t granule;        /* address >> shift, plus 1; 0: empty */
	uint64_t writer, reader; /* block + 1 of cell's accesses; 0: none. MANY_BLOCKS: several blocks read */
	struct ptx_cell cell;
};
#define MANY_BLOCKS UINT64_MAX

struct ptx_copy { /* under way */
	uint64_t from;
	uint32_t to, group;        /* shared address; number of the group, counted by the thread */
	uint8_t bytes, read, lane; /* read: bytes that are not zero-filled */
	bool landed;
};

struct ptx_warp {
	int index;
	uint32_t live, waiting,
	    parked;       /* lanes: not ended; at a barrier; at an instruction that wants other lanes too */
	uint32_t touched; /* have used memory or a barrier */
	uint32_t pc[LANES];
	uint32_t clock[MOST_WARPS];
	uint32_t known[MOST_WARPS]; /* as clock, but of its own moments those before the present one */
	uint32_t *def;              /* for each register the lanes that hold a value */
	uint8_t *regs;
	struct ptx_copy *copy;
	int ncopies, copies_cap;
	uint32_t groups[LANES]; /* groups of copies that each lane has committed */
};

struct ptx_barrier {
	uint32_t lanes[MOST_WARPS];   /* that wait */
	uint32_t arrived[MOST_WARPS]; /* that do not wait */
	uint32_t pc[MOST_WARPS];
	uint32_t clock[MOST_WARPS]; /* of what arrived */
	uint32_t threads;           /* 0: the whole block */
	bool used;
};

struct ptx_exec {
	const struct ptx *m;
	const struct ptx_kernel *k;
	const struct ptx_launch *l;
	struct rng rng;
	unsigned block[3];
	int nthreads, nwarps;
	struct ptx_warp warp[MOST_WARPS];
	struct ptx_barrier barrier[16];
	int ended_touched; /* threads that ended after they used memory or a barrier */
	int ended_thread;  /* one of them */
	uint8_t *shared, *local, *params;
	size_t shared_bytes; /* static ones, then dynamic ones */
	struct ptx_cell *cell;
	struct ptx_global *global; /* 2^global_bits */
	int global_bits;
	uint64_t nglobal; /* used */
	uint64_t block_number;
	uint64_t budget, lanes_ran;
	const struct ptx_ins *in; /* at work, for texts */
	struct ptx_warp *w;
	jmp_buf stop;
	int rc;
};

/* Ends the run: the text says where. lane: of x->w, -1 for none. */
void ptx_stop(struct ptx_exec *x, int lane, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* Stores the lanes of m from `from` as the register o. */
void ptx_commit(struct ptx_warp *w, const struct ptx_opnd *o, const void *from, uint32_t m);

void ptx_load_store(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m);
void ptx_atomic(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m);
void ptx_copy_start(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m);
/* Ends the copies of these lanes that belong to all groups but the last `left`; left -1: all, also
 * uncommitted ones. */
void ptx_copy_wait(struct ptx_exec *x, struct ptx_warp *w, uint32_t m, int64_t left);
void ptx_copy_some(struct ptx_exec *x, struct ptx_warp *w);                /* lands what the seed says */
void ptx_copy_abandon(struct ptx_exec *x, struct ptx_warp *w, uint32_t m); /* these lanes end */

/* 16 bytes for each of these lanes at its address. */
void ptx_access_rows(struct ptx_exec *x, struct ptx_warp *w, int space, const uint64_t *at, uint32_t lanes,
		     bool write, uint8_t (*bytes)[16]);
void ptx_matrix(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in); /* by all lanes */
void ptx_ldmatrix(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in);
void ptx_mma(struct ptx_warp *w, const struct ptx_ins *in);
/* A sum of products as the matrices of a device make it: its bits as an f32 or s32. */
uint32_t ptx_matrix_sum(double sum, int type);

/* Each checks and notes accesses to shared memory, at[lane] bytes from its start. */
void ptx_shadow_read(struct ptx_exec *x, uint32_t lanes, const uint32_t *at, uint32_t bytes, bool atomic);
void ptx_shadow_write(struct ptx_exec *x, uint32_t lanes, const uint32_t *at, uint32_t bytes, int kind);
void ptx_shadow_landed(struct ptx_exec *x, int lane, uint32_t at, uint32_t bytes);

/* The same for global memory, if the launch asks for it. */
void ptx_global_access(struct ptx_exec *x, uint32_t lanes, const uint64_t *at, uint32_t bytes, bool write,
		       bool atomic);

#endif
