/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a fallible function returns >= 0 (good) or one of the negative `enum err`.
 *
 * The text is made once, where the cause is known: `return fail(E_CORRUPT, "record %u: bad crc", n);`
 * A caller that knows more puts it in front: `return fail_in(rc, "cache %s", path);` gives "cache P: record
 * 3: bad crc". The text is thread-local (one per thread, at most 4 KiB, cut at a character) and is read where
 * it is shown. An error tells its reader what to do next. */
#ifndef PLATFORM_ERR_H
#define PLATFORM_ERR_H

#define MUST_CHECK __attribute__((warn_unused_result))

enum err {
	E_OK = 0,
	E_USAGE = -1,       /* the caller's arguments are wrong */
	E_NOMEM = -2,       /* no memory, or over a cap */
	E_IO = -3,          /* a system call failed: errno in the text */
	E_CORRUPT = -4,     /* malformed data */
	E_UNSUPPORTED = -5, /* valid, but not ours (operator, ISA, version) */
	E_NOTFOUND = -6,    /* no such file, key, device */
	E_TIMEOUT = -7,     /* a deadline passed */
	E_BUSY = -8,        /* another process or thread holds it */
	E_CHILD = -9,       /* a child process died */
	E_INFEASIBLE = -10, /* no kernel can be made of this candidate (data, not a fault) */
	E_WRONG = -11,      /* an answer differs from the reference */
	E_STOPPED = -12,    /* asked to stop (signal, end of box) */
	E_SPILL = -13,      /* a candidate whose values do not fit the registers (data, as E_INFEASIBLE) */
	E_LAST = E_SPILL,
};

/* Stores the text and returns rc. printf-like. */
int fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "text: " in front of the stored text and returns rc; returns rc >= 0 unchanged. */
int fail_in(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text of this thread's last failure; never NULL. */
const char *err_text(void);
/* Returns rc; unless it is a failure, removes the text of this thread's last failure, which was handled. */
int err_clear(int rc);
/* Name of a code: "corrupt". */
const char *err_name(int rc);

#endif
