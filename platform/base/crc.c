/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, reflected 0x82F63B78). It uses the processor's instruction if a test at run time finds
 * one. */
#include "platform/base/hash.h"

#include <endian.h>
#include <string.h>

/* A CRC is linear: entry i of the byte table is the sum of the entries of i's bits. */
#define BIT(i, b, v) ((i) >> (b)&1 ? UINT32_C(v) : 0)
#define T1(i)                                                                                                \
	BIT(i, 0, 0xf26b8303) ^ BIT(i, 1, 0xe13b70f7) ^ BIT(i, 2, 0xc79a971f) ^ BIT(i, 3, 0x8ad958cf) ^      \
	    BIT(i, 4, 0x105ec76f) ^ BIT(i, 5, 0x20bd8ede) ^ BIT(i, 6, 0x417b1dbc) ^ BIT(i, 7, 0x82f63b78)
#define T4(i) T1(i), T1((i) + 1), T1((i) + 2), T1((i) + 3)
#define T16(i) T4(i), T4((i) + 4), T4((i) + 8), T4((i) + 12)
#define T64(i) T16(i), T16((i) + 16), T16((i) + 32), T16((i) + 48)
static const uint32_t crc_table[256] = {T64(0), T64(64), T64(128), T64(192)};

uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = crc >> 8 ^ crc_table[(crc ^ p[i]) & 255];
	return ~crc;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#include <stdatomic.h>

/* Asks the processor once, as a hypervisor takes microseconds to answer. __builtin_cpu_supports would link
 * 5 KB of libgcc, which tell all processors apart. */
static bool has_crc(void)
{
	enum { UNKNOWN, ABSENT, PRESENT };
	static atomic_int known;
	int k = atomic_load_explicit(&known, memory_order_relaxed);
	if (k == UNKNOWN) {
		unsigned a, b, c = 0, d;
		k = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? PRESENT : ABSENT;
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	return k == PRESENT;
}

#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, v) ((uint32_t)_mm_crc32_u64(crc, v))
#define CRC_BYTE(crc, v) _mm_crc32_u8(crc, v)

#elif defined(__aarch64__)
#include <sys/auxv.h>

static bool has_crc(void)
{
	return getauxval(AT_HWCAP) >> 7 & 1; /* HWCAP_CRC32 */
}

static inline uint32_t crc_word(uint32_t crc, uint64_t v)
{
	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %1" : "+r"(crc) : "r"(v));
	return crc;
}

static inline uint32_t crc_byte(uint32_t crc, uint8_t v)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)v));
	return crc;
}

#define CRC_TARGET
#define CRC_WORD(crc, v) crc_word(crc, v)
#define CRC_BYTE(crc, v) crc_byte(crc, v)

#else

static bool has_crc(void)
{
	return false;
}

#define CRC_TARGET
#define CRC_WORD(crc, v) ((void)(v), crc)
#define CRC_BYTE(crc, v) ((void)(v), crc)

#endif

/* The product of two polynomials modulo the CRC's; the first bit is the highest power (M. Adler, crc32.c). */
static uint32_t product(uint32_t a, uint32_t b)
{
	uint32_t p = 0;
	for (; a; a <<= 1) {
		p ^= a >> 31 ? b : 0;
		b = b >> 1 ^ (b & 1 ? UINT32_C(0x82F63B78) : 0);
	}
	return p;
}

/* x to the power of the bits of a lane: the factor by which LANE more bytes change a sum. */
enum { LANE = 16384 };
static const uint32_t lane_power = UINT32_C(0xbf455269);

/* Each CRC step waits three cycles for the one before, so three lanes run at once. */
CRC_TARGET static uint32_t crc_lanes(uint32_t crc, const uint8_t *p)
{
	uint32_t a = crc, b = 0, c = 0;
	for (size_t i = 0; i < LANE; i += 8) {
		uint64_t v[3];
		memcpy(&v[0], p + i, 8);
		memcpy(&v[1], p + LANE + i, 8);
		memcpy(&v[2], p + 2 * LANE + i, 8);
		a = CRC_WORD(a, le64toh(v[0]));
		b = CRC_WORD(b, le64toh(v[1]));
		c = CRC_WORD(c, le64toh(v[2]));
	}
	return product(lane_power, product(lane_power, a) ^ b) ^ c;
}

CRC_TARGET static uint32_t crc_processor(uint32_t crc, const uint8_t *p, size_t n)
{
	crc = ~crc;
	for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE)
		crc = crc_lanes(crc, p);
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t v;
		memcpy(&v, p, sizeof v);
		crc = CRC_WORD(crc, le64toh(v));
	}
	for (; n; n--, p++)
		crc = CRC_BYTE(crc, *p);
	return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	return has_crc() ? crc_processor(crc, bytes, n) : crc32c_table(crc, bytes, n);
}
