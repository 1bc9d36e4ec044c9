/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/sandbox.h"

#include "platform/base/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_TESTS = 2 };

/* The test holds if (argument `arg` & mask) == value. */
struct test {
	unsigned arg;
	uint64_t mask, value; /* mask 0: no test */
};

/* A call that is allowed if all its tests hold; rows of the same call are alternatives. */
struct rule {
	const char *call;
	struct test test[MOST_TESTS];
};

#define ANY UINT64_MAX
#define OWN (UINT64_MAX - 1) /* this process' number */
#define WORD UINT64_C(0xffffffff)
#define TYPE (MAP_SHARED | MAP_PRIVATE)
#define CHILD (CLONE_VM | SIGCHLD)

static const struct rule rules[] = {
    /* open descriptors */
    {"read"},
    {"readv"},
    {"pread64"},
    {"write"},
    {"writev"},
    {"pwrite64"},
    {"lseek"},
    {"fstat"},
    {"close"},
    {"poll"},
    {"ppoll"},
    {"fcntl", {{1, WORD, F_ADD_SEALS}}},
    {"fcntl", {{1, WORD, F_GETFL}}},
    {"memfd_create"},
    /* memory */
    {"brk"},
    {"munmap"},
    {"mremap"},
    {"madvise"},
    {"mprotect", {{2, PROT_EXEC, 0}}},
    {"mmap", {{2, PROT_EXEC, 0}, {3, MAP_ANONYMOUS, MAP_ANONYMOUS}}},
    {"mmap", {{2, PROT_EXEC, 0}, {3, TYPE | MAP_ANONYMOUS, MAP_PRIVATE}}},
    {"mmap", {{2, WORD, PROT_READ | PROT_EXEC}, {3, TYPE | MAP_ANONYMOUS, MAP_PRIVATE}}},
    /* threads, and calls that the C library makes by itself */
    {"futex"},
    {"set_robust_list"},
    {"rseq"},
    {"restart_syscall"},
    {"rt_sigaction"},
    {"rt_sigprocmask"},
    {"rt_sigpending"},
    {"rt_sigtimedwait"},
    {"rt_sigreturn"},
    {"sigaltstack"},
    {"tgkill", {{0, WORD, OWN}}},
    {"gettid"},
    {"getpid"},
    {"getppid"},
    {"getrandom"},
    {"sysinfo"},
    {"getrusage"},
    {"prlimit64", {{0, WORD, 0}}},
    {"exit"},
    {"exit_group"},
    /* time and cpus */
    {"clock_gettime"},
    {"clock_getres"},
    {"clock_nanosleep"},
    {"nanosleep"},
    {"gettimeofday"},
    {"getcpu"},
    {"sched_yield"},
    {"sched_getaffinity"},
    {"sched_setaffinity", {{0, WORD, 0}}},
    {"setitimer"},
    /* a candidate's process */
    {"clone", {{0, ANY, CHILD}}},
    {"wait4"},
    {"prctl", {{0, WORD, PR_SET_PDEATHSIG}}},
    {"seccomp"},
    /* the same calls of 32-bit machines, and those of Arm that follow the writing of code and a signal */
    {"_llseek"},
    {"fstat64"},
    {"fcntl64", {{1, WORD, F_ADD_SEALS}}},
    {"fcntl64", {{1, WORD, F_GETFL}}},
    {"mmap2", {{2, PROT_EXEC, 0}, {3, MAP_ANONYMOUS, MAP_ANONYMOUS}}},
    {"mmap2", {{2, PROT_EXEC, 0}, {3, TYPE | MAP_ANONYMOUS, MAP_PRIVATE}}},
    {"mmap2", {{2, WORD, PROT_READ | PROT_EXEC}, {3, TYPE | MAP_ANONYMOUS, MAP_PRIVATE}}},
    {"futex_time64"},
    {"ppoll_time64"},
    {"rt_sigtimedwait_time64"},
    {"clock_gettime64"},
    {"clock_getres_time64"},
    {"clock_nanosleep_time64"},
    {"sigreturn"},
    {"cacheflush"},
};

/* Sanitizers read their own memory map and, at the end, inspect their own threads. */
#if SANITIZED_ADDRESS
enum { LIMITS_MEMORY = 0 };
static const struct rule more_rules[] = {
    {"clone"},
    {"ptrace"},
    {"open", {{1, O_ACCMODE | O_CREAT, 0}}},
    {"openat", {{2, O_ACCMODE | O_CREAT, 0}}},
    {"readlink"},
    {"readlinkat"},
    {"getdents"},
    {"getdents64"},
    {"prctl"},
    {"tgkill"},
    {"kill"},
    {"process_vm_readv"},
    {"uname"},
    {"newfstatat"},
};
#else
enum { LIMITS_MEMORY = 1 };
static const struct rule more_rules[] = {{"uname"}};
#endif

static const struct rule cage_rules[] = {{"exit"}, {"exit_group"}};

static int add_rule(scmp_filter_ctx f, const struct rule *r)
{
	struct scmp_arg_cmp cmp[MOST_TESTS];
	unsigned n = 0;
	int call = seccomp_syscall_resolve_name(r->call);
	for (; n < MOST_TESTS && r->test[n].mask; n++) {
		const struct test *t = &r->test[n];
		uint64_t value = t->value == OWN ? (uint64_t)getpid() : t->value;
		cmp[n] = SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, t->mask, value);
	}
	/* A call that this machine (or this libseccomp) does not know is skipped. */
	return call < 0 ? 0 : seccomp_rule_add_array(f, SCMP_ACT_ALLOW, call, n, cmp);
}

static int add_rules(scmp_filter_ctx f, const struct rule *r, size_t n)
{
	int rc = 0;
	for (size_t i = 0; i < n && rc >= 0; i++)
		rc = add_rule(f, &r[i]);
	return rc;
}

/* A filter in the kernel's form. */
struct sandbox_cage {
	struct sock_fprog prog;
	struct sock_filter insn[];
};

static int export(scmp_filter_ctx f, struct sandbox_cage **out)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	off_t bytes = fd >= 0 && seccomp_export_bpf(f, fd) >= 0 ? lseek(fd, 0, SEEK_END) : -1;
	struct sandbox_cage *c = bytes > 0 ? malloc(sizeof *c + (size_t)bytes) : NULL;
	int rc = c && pread(fd, c->insn, (size_t)bytes, 0) == bytes ? E_OK
								    : fail(E_NOMEM, "no memory for a filter");
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		free(c);
		return rc;
	}
	c->prog = (struct sock_fprog){(unsigned short)((size_t)bytes / sizeof c->insn[0]), c->insn};
	*out = c;
	return E_OK;
}

static int make(uint32_t otherwise, const struct rule *r, size_t n, const struct rule *more, size_t nmore,
		struct sandbox_cage **out)
{
	/* Kernels before 4.14 (JetPack 4 has 4.9) can only kill the thread: a candidate's process has no
	 * other. */
	bool killing = otherwise == SCMP_ACT_KILL_PROCESS;
	scmp_filter_ctx f = seccomp_init(otherwise);
	if (!f && killing)
		f = seccomp_init(SCMP_ACT_KILL_THREAD);
	int rc = f ? seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) : -ENOMEM;
	if (f && rc < 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_THREAD);
	if (f && rc >= 0)
		(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE,
				       2); /* a tree, where libseccomp makes one */
	if (rc >= 0)
		rc = add_rules(f, r, n);
	if (rc >= 0)
		rc = add_rules(f, more, nmore);
	/* Calls for which a C library has a fallback. */
	if (rc >= 0)
		rc = killing ? 0 : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	rc = rc < 0 ? fail(E_IO, "cannot make a system-call filter: %s", strerror(-rc)) : export(f, out);
	if (f)
		seccomp_release(f);
	return rc;
}

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW 4
#endif

/* Kernels before 4.17 do not know the flag for speculation, and apply no mitigation either. */
static bool put_on(const struct sandbox_cage *c, unsigned flags)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		       &c->prog) == 0 ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &c->prog) == 0;
}

/* The kernel reads the filter, and fails to, only if it knows filters. */
static bool has_filters(void)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 && errno == EFAULT;
}

int sandbox_cage_make(struct sandbox_cage **out)
{
	if (!has_filters())
		return fail(E_UNSUPPORTED, "the Linux kernel has no system-call filters: %s",
			    strerror(errno));
	return make(SCMP_ACT_KILL_PROCESS, cage_rules, sizeof cage_rules / sizeof *cage_rules, NULL, 0, out);
}

bool sandbox_cage_enter(const void *cage)
{
	return put_on(cage, 0);
}

int sandbox_enter(void)
{
	struct sandbox_cage *c;
	if (!has_filters() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(E_UNSUPPORTED, "the Linux kernel has no system-call filters: %s",
			    strerror(errno));
	int rc = make(SCMP_ACT_ERRNO(EPERM), rules, sizeof rules / sizeof *rules, more_rules,
		      sizeof more_rules / sizeof *more_rules, &c);
	if (rc < 0)
		return rc;
	if (!put_on(c, SECCOMP_FILTER_FLAG_TSYNC))
		rc = fail(E_UNSUPPORTED, "the Linux kernel refused the system-call filter: %s",
			  strerror(errno));
	free(c);
	return rc;
}

/* Only lowers limits. */
static int limit(int what, int64_t most)
{
	struct rlimit l;
	if (most <= 0 || getrlimit(what, &l) < 0)
		return 0;
	rlim_t to = l.rlim_max == RLIM_INFINITY || l.rlim_max > (rlim_t)most ? (rlim_t)most : l.rlim_max;
	l.rlim_max = to;
	l.rlim_cur = l.rlim_cur == RLIM_INFINITY || l.rlim_cur > to ? to : l.rlim_cur;
	return setrlimit(what, &l);
}

static int64_t machine_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
	return pages > 0 && bytes > 0 ? (int64_t)pages * bytes : 0;
}

int sandbox_limit(const struct sandbox_limits *l)
{
	const struct rlimit none = {0, 0};
	int64_t memory = l->memory_bytes ? l->memory_bytes : machine_bytes();
	signal(SIGXFSZ, SIG_IGN); /* a log file that grew past the limit must not kill the process */
	if (setrlimit(RLIMIT_CORE, &none) < 0 || limit(RLIMIT_AS, LIMITS_MEMORY ? memory : 0) < 0 ||
	    limit(RLIMIT_DATA, LIMITS_MEMORY ? l->data_bytes : 0) < 0 || limit(RLIMIT_CPU, l->cpu_s) < 0 ||
	    limit(RLIMIT_FSIZE, l->file_bytes) < 0 || limit(RLIMIT_NOFILE, l->files) < 0)
		return fail(E_IO, "cannot set a limit: %s", strerror(errno));
	return E_OK;
}
