/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the virtual machine. */
#include "platform/run/vm_parts.h"

#include <math.h>

static uint32_t to_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* Flush-to-zero, in software on exact results, whatever mode the thread is in. A result that rounds to the
 * smallest normal may still be tiny: below 2^-126 - 2^-151, it rounds to less than 2^-126 with 24 bits and an
 * unlimited exponent. */
#define NORMAL 0x1p-126f
#define TINY (0x1p-126 - 0x1p-151)

/* Replaces a subnormal by a zero of the same sign. */
static float fz(float f)
{
	uint32_t u = to_bits(f);
	return u & 0x7f800000 ? f : vm_from_bits(u & 0x80000000);
}

/* Rounds r to zero if its exact value is tiny. */
static float rounded(float r, bool tiny)
{
	return tiny ? vm_from_bits(to_bits(r) & 0x80000000) : fz(r);
}

static float add(float a, float b)
{
	return fz(fz(a) + fz(b)); /* a tiny sum is exact */
}

static float mul(float a, float b)
{
	float x = fz(a), y = fz(b), r = x * y;
	return fabsf(r) > NORMAL ? r : rounded(r, fabs((double)x * y) < TINY);
}

static float divide(float a, float b)
{
	float x = fz(a), y = fz(b), r = x / y;
	return fabsf(r) > NORMAL ? r : rounded(r, fabs((double)x) < TINY * fabs((double)y));
}

/* Whether exactly |p + c| < TINY. p is a product of two floats and therefore exact; Knuth's two-sum gives the
 * error of p + c. */
static bool tiny_sum(double p, double c)
{
	double s = p + c, b = s - p, error = (p - (s - b)) + (c - b);
	if (fabs(s) != TINY)
		return fabs(s) < TINY;
	return s > 0 ? error < 0 : error > 0;
}

static float muladd(bool fused, float a, float b, float c)
{
	if (!fused)
		return add(mul(a, b), c);
	float x = fz(a), y = fz(b), z = fz(c), r = fmaf(x, y, z);
	return fabsf(r) > NORMAL ? r : rounded(r, fabsf(r) == NORMAL && tiny_sum((double)x * y, z));
}

static float get_exp(float a)
{
	return (float)((int)(to_bits(a) >> 23 & 0xff) - 127);
}

static float lesser(float a, float b)
{
	return fz(a) < fz(b) ? fz(a) : fz(b);
}

static float greater(float a, float b)
{
	return fz(a) > fz(b) ? fz(a) : fz(b);
}

static float combine(int op, float a, float b)
{
	return op == VM_HADD   ? add(a, b)
	       : op == VM_HMUL ? mul(a, b)
	       : op == VM_HMIN ? lesser(a, b)
			       : greater(a, b);
}

static void horizontal(const struct vm_ins *s, float *dst, const float *a)
{
	float t[VM_LANES];
	memcpy(t, a, sizeof t);
	for (int n = s->src / 2; n >= 1; n /= 2)
		for (int i = 0; i < n; i++)
			t[i] = combine(s->op, t[i], t[i + n]);
	for (int i = 0; i < s->lanes; i++)
		dst[i] = t[0];
}

/* Takes blocks of x lanes of a and b alternately, either the even ones or the odd ones. */
static void blocks(const struct vm_ins *s, float *dst, const float *a, const float *b)
{
	float t[VM_LANES];
	for (int i = 0, x = (int)s->x; i < s->lanes; i++)
		t[i] = s->op == VM_TRN0 ? (i & x ? b[i - x] : a[i]) : (i & x ? b[i] : a[i + x]);
	memcpy(dst, t, sizeof *t * s->lanes);
}

/* Of x >> 8 vectors in turn the (x & 15)-th one's lanes in the (x >> 4 & 15)-th share, between a's own. */
static void lace(const struct vm_ins *s, float *dst, const float *a, const float *b)
{
	float t[VM_LANES];
	uint32_t n = s->x >> 8, first = (s->x >> 4 & 15) * s->lanes;
	for (uint32_t j = 0; j < s->lanes; j++)
		t[j] = (first + j) % n == (s->x & 15) ? b[(first + j) / n] : a[j];
	memcpy(dst, t, sizeof *t * s->lanes);
}

#define EACH(value)                                                                                          \
	do {                                                                                                 \
		for (int i = 0; i < n; i++)                                                                  \
			dst[i] = (value);                                                                    \
	} while (0);                                                                                         \
	break

/* All vector operations but loads. dst may be any of the sources, because lanes do not mix except where
 * noted. */
void vm_vector(struct vm *vm, const struct vm_ins *s)
{
	const int n = s->lanes;
	float *dst = vm->v[s->dst];
	const char *sh = vm_shape[s->op];
	const float *a = vm->v[sh[1] == 'v' ? s->a : 0], *b = vm->v[sh[2] == 'v' ? s->b : 0];
	const float *c = vm->v[sh[3] == 'v' ? s->c : 0], *d = vm->v[sh[4] == 'v' ? s->d : 0];
	const float imm = s->op == VM_LANE ? a[s->x & 15] : vm_from_bits(s->x);
	switch (s->op) {
	case VM_CONST:
	case VM_LANE:
		EACH(imm);
	case VM_COPY:
		EACH(a[i]);
	case VM_ADD:
		EACH(add(a[i], b[i]));
	case VM_SUB:
		EACH(add(a[i], -b[i]));
	case VM_MUL:
		EACH(mul(a[i], b[i]));
	case VM_DIV:
		EACH(divide(a[i], b[i]));
	case VM_MIN:
		EACH(lesser(a[i], b[i]));
	case VM_MAX:
		EACH(greater(a[i], b[i]));
	case VM_FMA:
		EACH(muladd(vm->o.fma, a[i], b[i], c[i]));
	case VM_NEG:
		EACH(vm_from_bits(to_bits(a[i]) ^ 0x80000000));
	case VM_ABS:
		EACH(vm_from_bits(to_bits(a[i]) & 0x7fffffff));
	case VM_SQRT:
		EACH(sqrtf(fz(a[i])));
	case VM_FLOOR:
		EACH(floorf(fz(a[i])));
	case VM_CEIL:
		EACH(ceilf(fz(a[i])));
	case VM_RINT:
		EACH(rintf(fz(a[i])));
	case VM_SEL_LT:
		EACH(fz(a[i]) < fz(b[i]) ? c[i] : d[i]);
	case VM_SEL_LE:
		EACH(fz(a[i]) <= fz(b[i]) ? c[i] : d[i]);
	case VM_SEL_EQ:
		EACH(fz(a[i]) == fz(b[i]) ? c[i] : d[i]);
	case VM_POW2:
		EACH(vm_from_bits(to_bits(a[i]) << 23));
	case VM_GETEXP:
		EACH(get_exp(a[i]));
	case VM_GETMANT:
		EACH(vm_from_bits((to_bits(a[i]) & 0x007fffff) | 0x3f800000));
	case VM_TRN0:
	case VM_TRN1:
		blocks(s, dst, a, b);
		break;
	case VM_LACE:
		lace(s, dst, a, b);
		break;
	default:
		horizontal(s, dst, a);
	}
}
