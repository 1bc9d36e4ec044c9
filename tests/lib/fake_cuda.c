/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver whose devices are this processor, in the place of libcuda.so.1: a shared library of its own.
 * Memory of its devices is memory of the process, and launches are run by the tests' interpreter of PTX, when
 * their stream is asked or waited for, in order. It is strict: no call before cuInit, after a fork, or
 * without a current context; addresses and sizes must lie in what was allocated, also those that kernels use
 * (else the context is broken, as by an illegal address).
 *
 * The environment variable FAKE_CUDA names its lies, with ";" between them. "": it tells the truth: one
 * device of sm_87 and a driver of CUDA 11.4.
 *
 * "CALL=CODE": that call gives the error; "null CALL": it gives NULL without one; "crash CALL", "hang CALL":
 * it ends the process or does not return. With "@N" behind, from the process's Nth such call on; with "@N!",
 * that call alone.
 * "devices N": so many; "version N": of CUDA, as cuDriverGetVersion says it; "integrated": the devices share
 * the host's memory; "strings-endless", "strings-dirty"; "numbers N": every limit is N; "attribute A=N":
 * that of number A is; "capability N": 10 * major + minor; "memory N": bytes of a device; "prohibited": no
 * use is allowed. Of launches, from the process's Nth on with "@N" behind: "stuck": they never end; "sticky
 * CODE": they break the context, so that every later call gives CODE; "wrong": a value of each of a warp's
 * stores is another; "slow": each takes 3 ms; "idle": they do nothing; "gone D=CODE@N": of device D alone,
 * which is gone then: every call on it gives CODE. "slow-first": the first launch of each kernel takes 300
 * ms; "slow-link": a link takes 1.5 s. "jit": no PTX links, and the log says why; with "@N" from the Nth on.
 * "kept-refused": no image loads that this process has not linked. "few-registers": no kernel runs with over
 * 32 threads in a block. "busy-threads": another thread does what breaks a capture of all threads' calls.
 * "forge": it writes into the process's pipe to its parent, in the form that tools/hone/drivers.c expects,
 * and does not return.
 *
 * FAKE_CUDA_CONTEXTS names a file (tests/lib/fake_cuda.h) for the most contexts that a device had at a time
 * in all processes. A process that has one holds a lock on a byte of it, which the kernel takes back when the
 * process ends.
 */
#include "tests/lib/fake_cuda_parts.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

int fake_cuda_links, fake_cuda_loads, fake_cuda_launches, fake_cuda_graphs, fake_cuda_graph_starts;

static struct block { /* memory of a device */
	char *p;
	size_t n;
	bool host;
} block[BLOCKS];
uint64_t linked[IMAGES];
static int retained[DEVICES], sticky, gone[DEVICES]; /* codes; 0: none */
static pid_t owner;                                  /* that has called cuInit */
static _Thread_local void *stack[DEPTH];
static _Thread_local int depth;
_Thread_local struct stream *capturing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char contexts[DEVICES];

/* The text behind a lie of this name ("" if nothing follows), cut at the next; NULL: it is not told. */
static const char *lie(const char *name, char out[64])
{
	const char *p = getenv("FAKE_CUDA");
	size_t n = strlen(name);
	while (p && *p) {
		size_t len = strcspn(p, ";");
		if (len >= n && !strncmp(p, name, n) && (len == n || strchr(" =@", p[n]))) {
			snprintf(out, 64, "%.*s", (int)(len - n), p + n);
			return out;
		}
		p += len + (p[len] == ';');
	}
	return NULL;
}

bool lies(const char *name)
{
	char rest[64];
	return lie(name, rest);
}

bool lies_at(const char *name, int n)
{
	char rest[64];
	const char *at = lie(name, rest) ? strchr(rest, '@') : NULL;
	bool once = at && at[strlen(at) - 1] == '!';
	return lies(name) && (!at || n == atoi(at + 1) || (n > atoi(at + 1) && !once));
}

static int lie_number(const char *name, int otherwise)
{
	char rest[64];
	const char *at = lie(name, rest);
	return at ? (int)strtol(at + strspn(at, " ="), NULL, 10) : otherwise;
}

static void crash(void)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

static void hang(void)
{
	pthread_mutex_unlock(&lock);
	for (;;)
		pause();
}

/* Counts calls of each name. */
static int *count(const char *call)
{
	static struct {
		char call[40];
		int n;
	} counts[64];
	int i = 0;
	while (counts[i].call[0] && strcmp(counts[i].call, call) && i < 63)
		i++;
	snprintf(counts[i].call, sizeof counts[i].call, "%s", call);
	return &counts[i].n;
}

/* How often this process has called it. */
SEEN int fake_cuda_calls(const char *call);
int fake_cuda_calls(const char *call)
{
	return *count(call);
}

static int current(void)
{
	return (int)((char *)stack[depth - 1] - contexts);
}

static int check_capture(enum premise need)
{
	if (need != UNSAFE || !capturing)
		return CUDA_SUCCESS;
	capturing->invalid = true;
	return CAPTURE_UNSUPPORTED;
}

int begin(const char *call, enum premise need)
{
	char text[80];
	pthread_mutex_lock(&lock);
	int n = ++*count(call), code = CUDA_SUCCESS;
	snprintf(text, sizeof text, "crash %s", call);
	if (lies_at(text, n))
		crash();
	snprintf(text, sizeof text, "hang %s", call);
	if (lies_at(text, n))
		hang();
	if (lies_at(call, n))
		code = lie_number(call, 999);
	else if (need != NOTHING && owner != getpid())
		code = NOT_INITIALIZED;
	else if (need >= CURRENT && !depth)
		code = CUDA_ERROR_INVALID_CONTEXT;
	else if (need >= CURRENT && (sticky || gone[current()]))
		code = sticky ? sticky : gone[current()];
	else
		code = check_capture(need);
	if (code != CUDA_SUCCESS)
		pthread_mutex_unlock(&lock);
	return code;
}

int end(int code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

void *made(const char *call, void *p)
{
	char text[80];
	snprintf(text, sizeof text, "null %s", call);
	return lies(text) ? NULL : p;
}

/* ---- the driver and its devices ---- */

/* One device, of which all bytes are 255, and a note like that. The pipe is the one that exec would close:
 * those from further up are make's. */
static void forge(void)
{
	static char bytes[sizeof(int) + 600 + sizeof(struct cuda_info) + 4096];
	struct stat st;
	memset(bytes, 0xff, sizeof bytes);
	memcpy(bytes, &(int){1}, sizeof(int));
	for (int fd = 3; fd < 256; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fcntl(fd, F_GETFD) & FD_CLOEXEC &&
		    (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
			(void)!write(fd, bytes, sizeof bytes);
}

/* As if this process had not used the driver yet. */
SEEN void fake_cuda_fresh(void);
void fake_cuda_fresh(void)
{
	owner = sticky = depth = 0;
	capturing = NULL;
	fake_cuda_links = fake_cuda_loads = fake_cuda_launches = fake_cuda_graphs = fake_cuda_graph_starts =
	    0;
	memset(retained, 0, sizeof retained);
	memset(gone, 0, sizeof gone);
	memset(linked, 0, sizeof linked);
}

int cuInit(unsigned flags)
{
	BEGIN(NOTHING);
	if (owner && owner != getpid())
		return end(NOT_INITIALIZED);
	if (lies("forge")) {
		forge();
		hang();
	}
	owner = getpid();
	return end(flags               ? CUDA_ERROR_INVALID_VALUE
		   : lies("devices 0") ? CUDA_ERROR_NO_DEVICE
				       : CUDA_SUCCESS);
}

int cuDriverGetVersion(int *version)
{
	BEGIN(NOTHING);
	*version = lie_number("version", 11040);
	return end(CUDA_SUCCESS);
}

int cuDeviceGetCount(int *n)
{
	BEGIN(STARTED);
	*n = lie_number("devices", 1);
	return end(CUDA_SUCCESS);
}

int cuDeviceGet(int *device, int number)
{
	BEGIN(STARTED);
	*device = number;
	return end(number >= 0 && number < lie_number("devices", 1) ? CUDA_SUCCESS
								    : CUDA_ERROR_INVALID_DEVICE);
}

int cuDeviceGetName(char *out, int room, int device)
{
	BEGIN(STARTED);
	if (lies("strings-endless"))
		memset(out, 'x', (size_t)room);
	else if (lies("strings-dirty"))
		snprintf(out, (size_t)room, "\n\033[31mred\033[0m\t\xff\xfe \"quoted\"\r");
	else
		snprintf(out, (size_t)room, "Fake C%d", device + 1);
	return end(CUDA_SUCCESS);
}

int cuDeviceGetUuid(unsigned char out[16], int device)
{
	BEGIN(STARTED);
	for (int i = 0; i < 16; i++)
		out[i] = (unsigned char)(16 * i + device);
	return end(CUDA_SUCCESS);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	char rest[64];
	const char *n = lie("memory", rest);
	BEGIN(STARTED);
	(void)device;
	*bytes = n ? (size_t)strtoull(n, NULL, 10) : (size_t)256 << 20;
	return end(CUDA_SUCCESS);
}

static int attribute(int what)
{
	static const struct {
		int what, value;
	} values[] = {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
		      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
		      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
		      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, SHARED_MOST},
		      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
		      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1300000},
		      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
		      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3199000},
		      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},
		      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 256 << 10},
		      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1}};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		if (values[i].what == what)
			return values[i].value;
	return 0;
}

int cuDeviceGetAttribute(int *out, int what, int device)
{
	BEGIN(STARTED);
	int capability = lie_number("capability", 87);
	char name[32];
	(void)device;
	snprintf(name, sizeof name, "attribute %d", what);
	*out = lies(name)                                             ? lie_number(name, 0)
	       : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? capability / 10
	       : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? capability % 10
	       : lies("numbers")                                      ? lie_number("numbers", 0)
	       : what == CU_DEVICE_ATTRIBUTE_INTEGRATED               ? lies("integrated")
	       : what == CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY      ? lies("integrated")
	       : what == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE ? lies("prohibited") * CU_COMPUTEMODE_PROHIBITED
							  : attribute(what);
	return end(CUDA_SUCCESS);
}

/* ---- contexts and streams ---- */

static int contexts_file = -1;

static struct flock place_of(int device, int64_t at, int64_t n, int type)
{
	return (struct flock){.l_type = (short)type,
			      .l_whence = SEEK_SET,
			      .l_start = ((off_t)(device + 1) << 32) + at,
			      .l_len = n};
}

/* This process has a context of the device now. Its locks do not stop a lock of its own from being found. */
static void count_context(int device)
{
	const char *path = getenv("FAKE_CUDA_CONTEXTS");
	struct flock l = place_of(device, getpid(), 1, F_WRLCK);
	char most = 0, n = 1;
	if (!path || retained[device] != 1)
		return;
	if (contexts_file < 0)
		contexts_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	(void)fcntl(contexts_file, F_SETLKW, &l);
	for (int64_t at = 0;; at = l.l_start + l.l_len - ((int64_t)(device + 1) << 32), n++) {
		l = place_of(device, at, (int64_t)UINT32_MAX - at, F_WRLCK);
		if (fcntl(contexts_file, F_GETLK, &l) < 0 || l.l_type == F_UNLCK)
			break;
	}
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	(void)fcntl(contexts_file, F_SETLKW, &whole);
	(void)!pread(contexts_file, &most, 1, 0);
	if (n > most)
		(void)!pwrite(contexts_file, &n, 1, 0);
	whole.l_type = F_UNLCK;
	(void)fcntl(contexts_file, F_SETLK, &whole);
}

static void uncount_context(int device)
{
	struct flock l = place_of(device, getpid(), 1, F_UNLCK);
	if (contexts_file >= 0 && !retained[device])
		(void)fcntl(contexts_file, F_SETLK, &l);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	BEGIN(STARTED);
	if (device < 0 || device >= DEVICES)
		return end(CUDA_ERROR_INVALID_DEVICE);
	if (lies("prohibited"))
		return end(CUDA_ERROR_DEVICE_UNAVAILABLE);
	if (sticky || gone[device])
		return end(sticky ? sticky : gone[device]);
	retained[device]++;
	count_context(device);
	*context = made(__func__, &contexts[device]);
	return end(CUDA_SUCCESS);
}

int cuDevicePrimaryCtxRelease(int device)
{
	BEGIN(STARTED);
	if (device < 0 || device >= DEVICES || retained[device] < 1)
		return end(CUDA_ERROR_INVALID_CONTEXT);
	retained[device]--;
	uncount_context(device);
	return end(CUDA_SUCCESS);
}

int cuCtxPushCurrent_v2(void *context)
{
	BEGIN(STARTED);
	long device = (char *)context - contexts;
	if (device < 0 || device >= DEVICES || retained[device] < 1 || depth == DEPTH)
		return end(CUDA_ERROR_INVALID_CONTEXT);
	stack[depth++] = context;
	return end(CUDA_SUCCESS);
}

int cuCtxPopCurrent_v2(void **context)
{
	BEGIN(STARTED);
	if (!depth)
		return end(CUDA_ERROR_INVALID_CONTEXT);
	*context = stack[--depth];
	return end(CUDA_SUCCESS);
}

int cuStreamCreate(void **stream, unsigned flags)
{
	BEGIN(UNSAFE);
	(void)flags;
	struct stream *s = calloc(1, sizeof *s);
	s->device = current();
	s->last = &s->first;
	*stream = made(__func__, s);
	if (!*stream)
		free(s);
	return end(CUDA_SUCCESS);
}

/* ---- memory ---- */

static struct block *find(uint64_t at, size_t bytes)
{
	for (int i = 0; i < BLOCKS; i++)
		if (block[i].p && at >= (uintptr_t)block[i].p && at - (uintptr_t)block[i].p <= block[i].n &&
		    bytes <= block[i].n - (at - (uintptr_t)block[i].p))
			return &block[i];
	return NULL;
}

/* Poison: nobody may count on zeros. */
static void *add_block(size_t bytes, bool host)
{
	int i = 0;
	while (i < BLOCKS && block[i].p)
		i++;
	void *p = i < BLOCKS ? aligned_alloc(512, (bytes + 511) / 512 * 512) : NULL;
	if (!p)
		return NULL;
	memset(p, 0x7f, bytes);
	block[i] = (struct block){p, bytes, host};
	return p;
}

static int drop_block(uint64_t at, bool host)
{
	struct block *b = find(at, 0);
	if (!b || (uintptr_t)b->p != at || b->host != host)
		return CUDA_ERROR_INVALID_VALUE;
	free(b->p);
	b->p = NULL;
	return CUDA_SUCCESS;
}

int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
	BEGIN(UNSAFE);
	if (!bytes)
		return end(CUDA_ERROR_INVALID_VALUE);
	void *p = add_block(bytes, false);
	*at = (uintptr_t)made(__func__, p);
	return end(p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

int cuMemFree_v2(uint64_t at)
{
	BEGIN(UNSAFE);
	return end(drop_block(at, false));
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
	BEGIN(UNSAFE);
	if (!bytes || !(flags & CU_MEMHOSTALLOC_DEVICEMAP))
		return end(CUDA_ERROR_INVALID_VALUE);
	void *p = add_block(bytes, true);
	*at = made(__func__, p);
	return end(p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

int cuMemHostGetDevicePointer_v2(uint64_t *at, void *host, unsigned flags)
{
	BEGIN(CURRENT);
	struct block *b = find((uintptr_t)host, 0);
	*at = (uintptr_t)made(__func__, host);
	return end(b && b->host && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

int cuMemFreeHost(void *at)
{
	BEGIN(UNSAFE);
	return end(drop_block((uintptr_t)at, true));
}

/* ---- launches ---- */

struct access { /* where warps have stored, the last ones if there are more */
	uint64_t at[1024];
	unsigned n;
};

static bool may(void *user, uint64_t at, size_t bytes, bool write)
{
	struct access *a = user;
	bool good = find(at, bytes);
	if (good && write && bytes >= 4)
		a->at[a->n++ % 1024] = at;
	return good;
}

static void run(const struct launch *l)
{
	static struct access a;
	void *param[PARAMS];
	a.n = 0;
	struct ptx_launch p = {.entry = l->f->name, .nparams = l->f->nparams, .seed = (uint64_t)l->number};
	p.shared_bytes = l->shared;
	memcpy(p.grid, l->grid, sizeof p.grid);
	memcpy(p.block, l->block, sizeof p.block);
	for (int i = 0; i < l->f->nparams; i++)
		param[i] = (void *)&l->value[i];
	p.param = param;
	p.may = may;
	p.user = &a;
	if (lies_at("slow", l->number))
		usleep(3000);
	if (lies("slow-first") && !l->f->ran)
		usleep(300000);
	l->f->ran = true;
	if (lies_at("sticky", l->number))
		sticky = lie_number("sticky", 700);
	if (sticky || lies_at("idle", l->number))
		return;
	int rc = ptx_run(l->f->module->ptx, &p);
	if (rc < 0) {
		fprintf(stderr, "fake_cuda: %s\n", err_text());
		sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	for (unsigned i = 0; i < a.n && i < 1024 && lies_at("wrong", l->number); i++)
		*(char *)(uintptr_t)(a.at[i] + 3) |= 0x41; /* of f32: large */
}

void free_launches(struct launch *l)
{
	for (struct launch *next; l; l = next) {
		next = l->next;
		free(l);
	}
}

/* The device may be gone from this launch on. */
static void lose_device(int device, int launch)
{
	char name[32];
	snprintf(name, sizeof name, "gone %d", device);
	if (lies_at(name, launch))
		gone[device] = lie_number(name, CUDA_ERROR_UNKNOWN);
}

/* The error that every call on the stream's device gives; CUDA_SUCCESS: none. */
static int broken(const struct stream *s)
{
	return sticky ? sticky : gone[s->device];
}

/* Runs what is in the stream. False: a launch never ends. */
static bool drain(struct stream *s)
{
	while (s->first) {
		struct launch *l = s->first;
		if (lies_at("stuck", l->number))
			return false;
		lose_device(s->device, l->number);
		if (!gone[s->device])
			run(l);
		s->first = l->next;
		s->last = s->first ? s->last : &s->first;
		free(l);
	}
	return true;
}

struct stream *stream_of(void *stream)
{
	struct stream *s = stream;
	return s && depth && s->device == current() ? s : NULL;
}

struct stream *ready_stream(void *stream, int *code)
{
	struct stream *s = stream_of(stream);
	*code = !s ? INVALID_HANDLE : s->captures ? CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
	if (s && s->captures)
		s->invalid = true;
	return *code == CUDA_SUCCESS ? s : NULL;
}

int cuStreamDestroy_v2(void *stream)
{
	BEGIN(CURRENT);
	struct stream *s = stream_of(stream);
	if (!s)
		return end(INVALID_HANDLE);
	if (s == capturing)
		capturing = NULL;
	if (s->captures)
		free_launches(s->first);
	else if (!drain(s))
		hang();
	int left = broken(s);
	free(s);
	return end(left);
}

int cuStreamQuery(void *stream)
{
	BEGIN(CURRENT);
	struct stream *s = ready_stream(stream, &code);
	return end(!s ? code : !drain(s) ? CUDA_ERROR_NOT_READY : broken(s));
}

int cuStreamSynchronize(void *stream)
{
	BEGIN(CURRENT);
	struct stream *s = ready_stream(stream, &code);
	if (!s)
		return end(code);
	if (!drain(s))
		hang();
	return end(broken(s));
}

static int copy(void *stream, uint64_t device, size_t bytes, const void *from, void *to)
{
	int code;
	struct stream *s = ready_stream(stream, &code);
	if (!s || !find(device, bytes))
		return s ? CUDA_ERROR_INVALID_VALUE : code;
	if (!drain(s))
		hang();
	if (!broken(s))
		memcpy(to, from, bytes);
	return broken(s);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
	BEGIN(CURRENT);
	return end(copy(stream, to, bytes, from, (void *)(uintptr_t)to));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	BEGIN(CURRENT);
	return end(copy(stream, from, bytes, (void *)(uintptr_t)from, to));
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	BEGIN(CURRENT);
	struct stream *s = stream_of(stream);
	struct function *f = function;
	const struct ptx_entry *e = f ? ptx_find(f->module->ptx, f->name) : NULL;
	bool fits =
	    e && (!e->reqntid[0] || (e->reqntid[0] == bx && e->reqntid[1] == by && e->reqntid[2] == bz));
	if (!s || !fits || !gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || extra ||
	    shared + e->shared_bytes > (size_t)(f->shared_most ? f->shared_most : 48 << 10))
		return end(CUDA_ERROR_INVALID_VALUE);
	struct launch *l = calloc(1, sizeof *l);
	*l = (struct launch){f,
			     {gx, gy, gz},
			     {bx, by, bz},
			     .number = s->captures ? 0 : ++fake_cuda_launches,
			     .shared = shared};
	for (int i = 0; i < f->nparams; i++)
		memcpy(&l->value[i], params[i], ptx_param_bytes(e, i) < 8 ? ptx_param_bytes(e, i) : 8);
	*s->last = l;
	s->last = &l->next;
	return end(CUDA_SUCCESS);
}
