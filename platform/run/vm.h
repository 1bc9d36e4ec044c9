/* SPDX-License-Identifier: Apache-2.0 */
/* A small vector virtual machine: what the simulated device (platform/run/dev_sim.c) executes. It knows no
 * tensors: it has 64-bit integer registers, vector registers of up to 16 f32, counted loops and
 * bounds-checked buffers.
 *
 * Object bytes (little endian): "HVM1", u16 buffers, u16 parameters, u16 entries, u8 fma, u8 zero, u32
 * integer registers, u32 vector registers, u32 pressure (vector registers live at once), u32 regs (of the
 * machine it was made for), u32 instructions, u32 zero; per entry: 16 bytes symbol, u32 first instruction,
 * u32 count; per instruction 28 bytes as in struct vm_ins. vm_load checks all of it, so that whatever passes
 * cannot reach outside its registers, its code or, when run, its buffers; a budget of instructions ends
 * endless loops.
 *
 * Time. vm_run also says how long the run would take on a made-up machine, from nothing but the instructions
 * executed: one core at 1 GHz, four instructions wide, with one arithmetic port (in order) and one memory
 * port (which runs ahead) of 4 lanes, latencies of 4 (arithmetic) and 3 (L1) cycles, direct-mapped caches (32
 * KiB, 256 KiB) that start cold, arithmetic slowed when the pressure is over the register file. So register
 * tiles, tails, unrolling, loop order and cache tiles matter as they do on a board, and the same run always
 * costs the same. */
#ifndef PLATFORM_VM_H
#define PLATFORM_VM_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

enum vm_op {
	/* Integers: R[dst] = ... (64-bit, wrapping; division by less than 1 gives 0). */
	VM_ICONST, /* imm */
	VM_IADD,
	VM_IMUL,
	VM_IDIV, /* floor */
	VM_IMOD,
	VM_IMIN,
	VM_IMAX,
	VM_ILT,
	VM_IEQ,
	VM_ITABLE, /* element R[a] of the i32 buffer b */
	VM_EXTENT, /* buffer b has R[a] elements of 4 bytes; without it, none */
	/* Control. for (R[dst] = R[a]; R[dst] < R[b]; R[dst] += imm), x: distance to its VM_NEXT. */
	VM_FOR,
	VM_NEXT, /* x: distance back to its VM_FOR */
	VM_IF,   /* R[a] != 0, else skip the next x instructions */
	VM_JUMP, /* skip the next x instructions */
	/* Memory. Element index R[a], buffer b, lane stride imm, valid lanes R[c], guard R[d] (VM_NONE:
	 * absent), x: bits of the value where the guard is 0. dst: vector written (load) or read (store). */
	VM_LOAD,
	VM_STORE,
	VM_PREFETCH,
	/* Vectors: V[dst] = op(V[a], V[b], V[c], V[d]), x: immediate bits (VM_CONST, VM_LANE). Order of
	   kernels' enum vop. */
	VM_CONST,
	VM_COPY,
	VM_LOAD_SLOT, /* not an instruction: keeps the order */
	VM_LANE,
	VM_ADD,
	VM_SUB,
	VM_MUL,
	VM_DIV,
	VM_MIN,
	VM_MAX,
	VM_FMA,
	VM_NEG,
	VM_ABS,
	VM_SQRT,
	VM_FLOOR,
	VM_CEIL,
	VM_RINT,
	VM_SEL_LT,
	VM_SEL_LE,
	VM_SEL_EQ,
	VM_POW2,
	VM_GETEXP,
	VM_GETMANT,
	VM_TRN0, /* x: lanes of a block; see kernels/loops/loops.h */
	VM_TRN1,
	VM_LACE, /* x: n, k, m of 4 bits each; see kernels/loops/loops.h */
	VM_HADD,
	VM_HMIN,
	VM_HMAX,
	VM_HMUL,
	VM_OPS
};

enum {
	VM_NONE = 0xffff,
	VM_MAX_BUFS = 32,
	VM_MAX_PARAMS = 256,
	VM_MAX_ENTRIES = 8,
	VM_MAX_REGS = 32768, /* of either kind */
	VM_LANES = 16,
};

struct vm_ins {
	uint8_t op;    /* enum vm_op */
	uint8_t lanes; /* of dst: 1, 2, 4, 8, 16; loads and stores: of the vector */
	uint8_t src;   /* lanes of a, if they may differ (VM_LANE, VM_H*) */
	uint8_t zero;
	uint16_t dst, a, b, c, d, zero2;
	uint32_t x;
	int64_t imm;
};

struct vm_entry {
	char symbol[16];
	uint32_t first, count;
};

/* When an entry starts, integer registers 0 .. nparams-1 hold the parameters, and the next two begin and
 * end. */
struct vm_object {
	int nbufs, nparams, nentries;
	bool fma; /* VM_FMA rounds once */
	uint32_t nints, nvecs, pressure, regs, ncode;
	struct vm_entry entry[VM_MAX_ENTRIES];
	const struct vm_ins *code;
};

struct vm; /* a loaded object and its registers; one thread at a time */

void vm_encode(const struct vm_object *o, struct buf *out);
int vm_load(const void *p, size_t n, struct vm **out) MUST_CHECK; /* E_CORRUPT, E_NOMEM; copies */
void vm_free(struct vm *vm);
int vm_find(const struct vm *vm, const char *symbol) MUST_CHECK; /* entry >= 0; E_NOTFOUND */
/* Runs [begin, end) of an entry on bufs (one pointer per buffer). *cost_ns: simulated time, also after a
 * failure. E_CORRUPT: an access outside a buffer; E_TIMEOUT: the budget of instructions is spent. */
int vm_run(struct vm *vm, int entry, void *const *bufs, const int64_t *params, int64_t begin, int64_t end,
	   int64_t *cost_ns) MUST_CHECK;

#endif
