/* SPDX-License-Identifier: Apache-2.0 */
/* Loops to PTX, the assembly language of NVIDIA's GPUs, with the LLVM C API (14 to 19). A target's `cpu` is
 * the architecture ("sm_87"), and its features name the version of PTX ("+ptx74"): the driver must know that
 * one. An older LLVM writes the newest version that it knows.
 *
 * The object is text. Its first line
 *   //hone-ptx NAME,GROUP,THREADS,SHARED;NAME,...
 * says for each entry its symbol, the items of a block, the threads of an item, and the bytes of its shared
 * memory: up to 48 KB are static, of more a launch must ask for all; the rest is PTX. Blocks are of GROUP x
 * THREADS threads (.reqntid): item `begin` + blockIdx.x
 * * GROUP + threadIdx.x runs that index, if it is below `end`, and threadIdx.y is its thread. An entry has
 * parameters of 64 bits, in this order: the address of each buffer, which is a multiple of 16, in the order
 * of the kernel ABI; the loops' parameters; begin and end. The last buffer, if it is scratch, has as many
 * elements for each item of the launch as the program declares, from `begin` on; where it is common, all have
 * one part. A launch has fewer than 2^31 items. Each entry says how many of its blocks a unit runs side by
 * side, 1 if the schedule does not (.minnctapersm): without it the assembler spills where registers are free.
 * Where the estimate of registers (kernels/emit/ptx_regs.h) lies below what that leaves to a thread, an entry
 * has a bound (.maxnreg), too.
 *
 * Results equal the interpreter's bit for bit, except that a zero may stand for a subnormal of the same sign,
 * or the reverse: MIN, MAX and selections pass an operand on without a flush, NEG and ABS flush. Divisions
 * and square roots are rounded correctly; sums of fragments of floats are those of the device.
 * Prefetches are left out. Products of matrices (MMLA), and of fragments where the target has none, are
 * refused as E_UNSUPPORTED, and more shared memory than the architecture has as E_INFEASIBLE. A kernel with
 * local memory is E_SPILL, as far as LLVM decides it, and so is one for which the estimate of registers says
 * that the driver's assembler will spill (kernels/emit/ptx_regs.h); it may spill others later. Where loops
 * carry more registers than there are, there is no text: E_INFEASIBLE. */
#include "kernels/loops/code.h"
#include "kernels/emit/emit.h"
#include "kernels/emit/llvm_gen.h"
#include "kernels/emit/llvm_object.h"
#include "kernels/emit/ptx_regs.h"
#include "kernels/space/resident.h"
#include "kernels/space/share.h"

#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 4 << 20 };

/* The newest version of PTX that this LLVM knows, and the newest architecture: PTX for it runs on later ones,
 * too. */
#if LLVM_VERSION_MAJOR < 16
enum { NEWEST_PTX = 75, NEWEST_SM = 86 };
#elif LLVM_VERSION_MAJOR < 17
enum { NEWEST_PTX = 78, NEWEST_SM = 90 };
#elif LLVM_VERSION_MAJOR < 18
enum { NEWEST_PTX = 81, NEWEST_SM = 90 };
#elif LLVM_VERSION_MAJOR < 19
enum { NEWEST_PTX = 83, NEWEST_SM = 90 };
#else
enum { NEWEST_PTX = 85, NEWEST_SM = 90 };
#endif

static const char triple[] = "nvptx64-nvidia-cuda";

static const char *version(void)
{
	return "ptx-llvm-" LLVM_VERSION_STRING "/" CODE_REVISION;
}

/* The first error of one emit. */
struct diag {
	char error[256];
};

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx)
{
	struct diag *d = ctx;
	char *text = LLVMGetDiagInfoDescription(info);
	if (LLVMGetDiagInfoSeverity(info) == LLVMDSError && !d->error[0])
		snprintf(d->error, sizeof d->error, "%s", text);
	LLVMDisposeMessage(text);
}

static int architecture(const struct target *t)
{
	return atoi(t->cpu + strlen("sm_"));
}

/* The version of PTX, as LLVM writes it. */
static int ptx_version(const struct target *t)
{
	int ptx = atoi(t->features + strlen("+ptx"));
	return ptx < NEWEST_PTX ? ptx : NEWEST_PTX;
}

/* LLVM's tables for one target, which are kept per thread for the next emit. */
struct machine {
	char cpu[sizeof((struct target *)0)->cpu], features[16];
	LLVMTargetMachineRef tm;
};
static _Thread_local struct machine kept;

static int use_machine(const struct target *t)
{
	LLVMTargetRef target;
	char *text = NULL, features[16], cpu[sizeof kept.cpu];
	snprintf(features, sizeof features, "+ptx%d", ptx_version(t));
	snprintf(cpu, sizeof cpu, "sm_%d", architecture(t) < NEWEST_SM ? architecture(t) : NEWEST_SM);
	if (kept.tm && strcmp(kept.cpu, cpu) == 0 && strcmp(kept.features, features) == 0)
		return E_OK;
	if (kept.tm)
		LLVMDisposeTargetMachine(kept.tm);
	kept = (struct machine){0};
	if (!llvm_has_ptx() || LLVMGetTargetFromTriple(triple, &target, &text)) {
		LLVMDisposeMessage(text);
		return fail(E_UNSUPPORTED, "this LLVM (" LLVM_VERSION_STRING ") cannot generate PTX");
	}
	snprintf(kept.cpu, sizeof kept.cpu, "%s", cpu);
	snprintf(kept.features, sizeof kept.features, "%s", features);
	kept.tm = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault,
					  LLVMRelocDefault, LLVMCodeModelDefault);
	return kept.tm ? E_OK : fail(E_UNSUPPORTED, "LLVM cannot generate PTX for %s", t->cpu);
}

/* Refuses what the assembler would probably spill, and bounds the registers of each entry; 0: no bound. */
static int bound_registers(const struct gen *g, const char *text, size_t n, int bound[LOOPS_MAX_ENTRIES])
{
	if (memmem(text, n, "__local_depot", 13))
		return fail(E_SPILL, "spill: the kernel has local memory");
	for (int i = 0; i < g->l->nentries; i++) {
		const struct entry *e = &g->l->entry[i];
		int limit = resident_registers(gpu_group(g, e) * e->threads, e->blocks);
		struct ptx_regs r = ptx_registers(text, n, i);
		if (ptx_spills(&r, limit))
			return fail(E_SPILL, "spill: a thread needs about %d registers, and has at most %d",
				    r.all, limit);
		bound[i] = ptx_most(&r, limit);
	}
	return E_OK;
}

/* The text, with the bounds behind the last directive of each entry. */
static void add_text(struct buf *b, const char *text, size_t n, const int *bound, int nentries)
{
	static const char last[] = "\n.minnctapersm ";
	const char *end = text + n;
	for (int i = 0; i < nentries; i++) {
		const char *at = memmem(text, (size_t)(end - text), last, sizeof last - 1);
		const char *line = at ? memchr(at + 1, '\n', (size_t)(end - at - 1)) : NULL;
		if (!line)
			break;
		buf_add(b, text, (size_t)(line + 1 - text));
		if (bound[i])
			buf_printf(b, ".maxnreg %d\n", bound[i]);
		text = line + 1;
	}
	buf_add(b, text, (size_t)(end - text));
}

/* The object: the line about the entries, and the text. */
static int finish(const struct gen *g, const char *text, size_t n, struct arena *a, struct blob *object)
{
	struct buf b = {0};
	int bound[LOOPS_MAX_ENTRIES] = {0}, rc = bound_registers(g, text, n, bound);
	if (rc < 0)
		return rc;
	buf_puts(&b, "//hone-ptx ");
	for (int i = 0; i < g->l->nentries; i++) {
		const struct entry *e = &g->l->entry[i];
		buf_printf(&b, "%s%s,%d,%d,%lld", i ? ";" : "", e->name, gpu_group(g, e), e->threads,
			   (long long)gpu_shared_bytes(g, e));
	}
	buf_puts(&b, "\n");
	add_text(&b, text, n, bound, g->l->nentries);
	if (!buf_ok(&b))
		rc = fail(E_NOMEM, "no memory for PTX");
	else
		*object = (struct blob){.p = arena_memdup(a, b.p, b.n), .n = b.n};
	buf_free(&b);
	if (rc >= 0 && n > MOST_TEXT)
		rc = fail(E_INFEASIBLE, "the kernel's PTX is longer than %d bytes", (int)MOST_TEXT);
	return rc;
}

static int compile(struct gen *g, struct diag *d, struct arena *a, struct blob *object)
{
	char *text = NULL;
	LLVMMemoryBufferRef mem;
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(kept.tm);
	LLVMSetTarget(g->mod, triple);
	LLVMSetModuleDataLayout(g->mod, layout);
	LLVMDisposeTargetData(layout);
	gen_module(g);
	if (g->long_address)
		return fail(E_INFEASIBLE, "the address of a fragment has too many terms");
	if (g->missing[0])
		return fail(E_UNSUPPORTED, "this LLVM (" LLVM_VERSION_STRING ") has no intrinsic %s",
			    g->missing);
	if (LLVMTargetMachineEmitToMemoryBuffer(kept.tm, g->mod, LLVMAssemblyFile, &text, &mem)) {
		int rc = fail(E_UNSUPPORTED, "LLVM: %s", text);
		LLVMDisposeMessage(text);
		return rc;
	}
	int rc = d->error[0] ? fail(E_UNSUPPORTED, "LLVM: %s", d->error)
			     : finish(g, LLVMGetBufferStart(mem), LLVMGetBufferSize(mem), a, object);
	LLVMDisposeMemoryBuffer(mem);
	return rc;
}

/* The names that loops_entry gives. */
static bool is_name(const char *s)
{
	size_t n = *s == 'k' ? strspn(s + 1, "0123456789") : 0;
	return n > 0 && n + 1 < sizeof((struct entry *)0)->name && !s[n + 1];
}

/* LLVM would end the process where it lacks an instruction. */
static int check_fragments(const struct loops *l, const struct target *t)
{
	if (l->narrow && !target_loads_matrices(t))
		return fail(E_UNSUPPORTED, "%s with %s loads no narrow rows of fragments", t->cpu,
			    t->features);
	for (int v = 0; v < l->nvars; v++) {
		const struct fragment *f = &l->fragment[v];
		bool product = f->part == FRAG_A || f->part == FRAG_B;
		if (product && !target_multiplies_fragments(t, dtype_name(f->dtype)))
			return fail(E_UNSUPPORTED, "%s with %s has no products of fragments of %s", t->cpu,
				    t->features, dtype_name(f->dtype));
	}
	return E_OK;
}

static int check(const struct loops *l, const struct target *t)
{
	int rc = strcmp(t->isa, "cuda")
		     ? fail(E_UNSUPPORTED, "emitter ptx cannot generate code for ISA %s", t->isa)
		     : target_check(t);
	if (rc >= 0)
		rc = loops_check(l);
	if (rc >= 0 && l->blocks)
		rc = fail(E_UNSUPPORTED, "cuda has no products of matrices of bytes");
	if (rc >= 0)
		rc = check_fragments(l, t);
	for (int i = 0; rc >= 0 && i < l->nentries; i++)
		if (!is_name(l->entry[i].name))
			rc = fail(E_CORRUPT, "the name of entry %d is no symbol", i);
	int64_t shared = 0, unit = loops_has_fragments(l) ? 32 : 16;
	for (int i = 0; rc >= 0 && i < l->nbufs; i++)
		if (l->buf[i].role == BUF_SHARED)
			shared += l->buf[i].elems->c * (int64_t)dtype_bytes(l->buf[i].dtype) + unit - 1;
	int64_t most = rc >= 0 ? share_most(t) : 0;
	most = most < GPU_STATIC ? GPU_STATIC : most;
	if (rc >= 0 && shared > most)
		rc = fail(E_INFEASIBLE, "a block has %lld bytes of shared memory, more than %lld",
			  (long long)shared, (long long)most);
	return rc;
}

/* Refuses what the assembler would surely spill, before there is a text. */
static int check_registers(const struct gen *g)
{
	for (int i = 0; i < g->l->nentries; i++) {
		const struct entry *e = &g->l->entry[i];
		int threads = gpu_group(g, e) * e->threads, most = resident_registers(threads, e->blocks),
		    least = ptx_carried(g->l, e) + PTX_REGS_MARGIN;
		if (least > most)
			return fail(
			    E_INFEASIBLE,
			    "a thread needs about %d registers, and has at most %d where a unit runs %d "
			    "blocks of %d threads",
			    least, most, e->blocks > 1 ? e->blocks : 1, threads);
	}
	return E_OK;
}

static int emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	struct arena tmp = {0};
	struct diag d = {""};
	int rc = check(l, t);
	if (rc < 0)
		return rc;
	llvm_start(false);
	rc = use_machine(t);
	if (rc < 0)
		return rc;
	struct gen g = {.l = l,
			.t = t,
			.a = &tmp,
			.arch = ARCH_PTX,
			.half = true,
			.narrow = true,
			.sm = architecture(t),
			.ptx = ptx_version(t)};
	rc = check_registers(&g);
	if (rc < 0)
		return rc;
	g.ctx = LLVMContextCreate();
	g.mod = LLVMModuleCreateWithNameInContext("hone", g.ctx);
	g.b = LLVMCreateBuilderInContext(g.ctx);
	LLVMContextSetDiagnosticHandler(g.ctx, on_diagnostic, &d);
	rc = compile(&g, &d, a, object);
	LLVMDisposeBuilder(g.b);
	LLVMDisposeModule(g.mod);
	LLVMContextDispose(g.ctx);
	arena_free(&tmp);
	return rc;
}

const struct emit emit_ptx = {"ptx", version, emit};
