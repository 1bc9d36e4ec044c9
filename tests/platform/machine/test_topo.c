/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of boards as folders, and the machine that runs the test. */
#include "platform/machine/target_isa.h"
#include "platform/machine/topo.h"
#include "platform/base/rng.h"
#include "tests/lib/sysroot.h"

TEST(agrees_with_the_host)
{
	struct topo t;
	struct target host, filled = {0};
	struct clusters c;
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(topo_read(&t, &filled));
	topo_clusters("", NULL, &c);
	CHECK(t.cores >= 1 && t.threads >= t.cores && t.packages >= 1 && t.numa_nodes >= 1);
	CHECK(c.n >= 1 && c.of[0].speed == 100 && host.cores <= c.of[0].cores);
	CHECK(c.n > 1 || t.cores == host.cores || t.cores == 64);
	if (filled.l1_bytes)
		CHECK(filled.l1_bytes == host.l1_bytes);
	for (int i = 1; i < t.cores; i++)
		CHECK(t.core_cpu[i] != t.core_cpu[i - 1]);
}

TEST(only_what_this_process_may_use)
{
	cpu_set_t all, one;
	struct topo t;
	struct target host;
	REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
	int last = 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		last = CPU_ISSET(i, &all) ? i : last;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
	CHECK_OK(topo_read(&t, NULL));
	CHECK_OK(target_host(&host));
	CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
	CHECK(t.cores == 1 && t.threads == 1 && t.core_cpu[0] == last);
	CHECK(host.cores == 1);
}

/* What the kernel shows of a processor; NULL and 0: nothing. */
struct cpu {
	const char *midr, *compatible;
	int capacity, khz;
};

/* How kernels tell which core a processor is: Linux since 6.0 with a device tree has one package, whose
 * clusters each number their cores from 0; older ones show a cluster as a package. */
enum cores { CORES_THREADS, CORES_CLUSTERS, CORES_PACKAGES, CORES_WAYS };

static void put_topology(const struct sysroot *b, int cpu, const char *leaf, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, CPU_DIR "cpu%d/topology/%s", cpu, leaf);
	sysroot_set(b, path, "%s\n", text);
}

static void put_core(const struct sysroot *b, int cpu, enum cores way, int cluster, int core,
		     const cpu_set_t *threads)
{
	char text[32];
	struct buf list = {0};
	snprintf(text, sizeof text, "%d", core);
	put_topology(b, cpu, "core_id", text);
	snprintf(text, sizeof text, "%d", cluster);
	put_topology(b, cpu, "physical_package_id", way == CORES_PACKAGES ? text : "0");
	if (way != CORES_PACKAGES)
		put_topology(b, cpu, "cluster_id", way == CORES_CLUSTERS ? text : "-1");
	topo_list_text(threads, &list);
	if (way == CORES_THREADS)
		put_topology(b, cpu, "thread_siblings_list", buf_str(&list));
	buf_free(&list);
}

static void put_cpu(const struct sysroot *b, int cpu, const struct cpu *k, enum cores way)
{
	cpu_set_t threads = {{0}};
	CPU_SET((size_t)cpu, &threads);
	put_core(b, cpu, way, cpu / 2, cpu % 2, &threads);
	char path[128];
	int n = snprintf(path, sizeof path, CPU_DIR "cpu%d/", cpu);
	const size_t room = sizeof path - (size_t)n;
	snprintf(path + n, room, "regs/identification/midr_el1");
	if (k->midr)
		sysroot_set(b, path, "0x00000000%s\n", k->midr);
	snprintf(path + n, room, "of_node/compatible");
	if (k->compatible)
		sysroot_set(b, path, "%s", k->compatible);
	snprintf(path + n, room, "cpu_capacity");
	if (k->capacity)
		sysroot_set(b, path, "%d\n", k->capacity);
	snprintf(path + n, room, "cpufreq/cpuinfo_max_freq");
	if (k->khz)
		sysroot_set(b, path, "%d\n", k->khz);
}

#define A53 "410fd034"
#define A55 "412fd050"
#define A57 "411fd073"
#define A72 "410fd083"
#define A73 "410fd092"
#define A76 "414fd0b0"
#define A78 "411fd410"
#define DENVER "4e0f0030"
#define X4 "410fd821"
#define KRYO "51df8034"
#define ICESTORM "611f0220"
#define MONGOOSE "534f0020"

/* Boards, and their clusters as NAME:CORES@SPEED. online: "" leaves the file out. */
static const struct {
	const char *what, *online, *clusters;
	struct cpu cpu[8];
} boards[] = {
    {"RK3399",
     "0-5",
     "cortex-a72:4,5@100 cortex-a53:0,1,2,3@47",
     {{A53, 0, 485, 1416000},
      {A53, 0, 485, 1416000},
      {A53, 0, 485, 1416000},
      {A53, 0, 485, 1416000},
      {A72, 0, 1024, 1800000},
      {A72, 0, 1024, 1800000}}},
    {"RK3399 of a vendor's kernel without capacities",
     "0-5",
     "cortex-a72:4,5@100 cortex-a53:0,1,2,3@78",
     {{A53, 0, 0, 1416000},
      {A53, 0, 0, 1416000},
      {A53, 0, 0, 1416000},
      {A53, 0, 0, 1416000},
      {A72, 0, 0, 1800000},
      {A72, 0, 0, 1800000}}},
    {"RK3588, whose fast cores are two pairs",
     "0-7",
     "cortex-a76:4,5,6,7@100 cortex-a55:0,1,2,3@51",
     {{A55, 0, 530, 1800000},
      {A55, 0, 530, 1800000},
      {A55, 0, 530, 1800000},
      {A55, 0, 530, 1800000},
      {A76, 0, 1024, 2400000},
      {A76, 0, 1024, 2400000},
      {A76, 0, 981, 2304000},
      {A76, 0, 981, 2304000}}},
    {"Jetson TX2, all at one capacity and clock",
     "0-5",
     "cortex-a57:0,3,4,5@100 id-4e-003:1,2@100",
     {{A57, 0, 1024, 2035200},
      {DENVER, 0, 1024, 2035200},
      {DENVER, 0, 1024, 2035200},
      {A57, 0, 1024, 2035200},
      {A57, 0, 1024, 2035200},
      {A57, 0, 1024, 2035200}}},
    {"Jetson TX2 with Denver off, a hole in the numbers",
     "0,3-5",
     "cortex-a57:0,3,4,5@100",
     {{A57, 0, 1024, 2035200},
      {0},
      {0},
      {A57, 0, 1024, 2035200},
      {A57, 0, 1024, 2035200},
      {A57, 0, 1024, 2035200}}},
    {"Raspberry Pi 4",
     "0-3",
     "cortex-a72:0,1,2,3@100",
     {{A72, 0, 1024, 1800000}, {A72, 0, 1024, 1800000}, {A72, 0, 1024, 1800000}, {A72, 0, 1024, 1800000}}},
    {"Odroid N2, whose small cores have the higher clock",
     "0-5",
     "cortex-a73:2,3,4,5@100 cortex-a53:0,1@100",
     {{A53, 0, 0, 1896000},
      {A53, 0, 0, 1896000},
      {A73, 0, 0, 1800000},
      {A73, 0, 0, 1800000},
      {A73, 0, 0, 1800000},
      {A73, 0, 0, 1800000}}},
    {"one kind at three clocks",
     "0-7",
     "cortex-a78:7@100 cortex-a78-2:4,5,6@80 cortex-a78-3:0,1,2,3@50",
     {{A78, 0, 512},
      {A78, 0, 512},
      {A78, 0, 512},
      {A78, 0, 512},
      {A78, 0, 820},
      {A78, 0, 820},
      {A78, 0, 820},
      {A78, 0, 1024}}},
    {"an unknown big core",
     "0-3",
     "id-41-d82:3@100 cortex-a55:0,1,2@24",
     {{A55, 0, 250}, {A55, 0, 250}, {A55, 0, 250}, {X4, 0, 1024}}},
    {"a 32-bit kernel, which shows no registers",
     "0-3",
     "cortex-a15:2,3@100 cortex-a7:0,1@59",
     {{0, "arm,cortex-a7", 606},
      {0, "arm,cortex-a7", 606},
      {0, "arm,cortex-a15", 1024},
      {0, "arm,cortex-a15", 1024}}},
    {"kinds alone", "0-3", "cortex-a72:2,3@100 cortex-a53:0,1@100", {{A53, 0}, {A53, 0}, {A72, 0}, {A72, 0}}},
    {"the big cores are offline",
     "0-3",
     "cortex-a53:0,1,2,3@100",
     {{A53, 0, 485}, {A53, 0, 485}, {A53, 0, 485}, {A53, 0, 485}, {0, 0, 1024}, {0, 0, 1024}}},
    {"x86 with small cores",
     "0-3",
     "core:0,1@100 core-2:2,3@70",
     {{0, 0, 0, 5200000}, {0, 0, 0, 5400000}, {0, 0, 0, 3800000}, {0, 0, 0, 3800000}}},
    {"one processor", "0", "cortex-a76:0@100", {{A76, 0, 1024, 2400000}}},
    {"no capacity of one core: clocks count",
     "0-3",
     "core:2@100 core-2:0,1,3@45",
     {{0, 0, 400, 900000}, {0, 0, 400, 900000}, {0, 0, 1024, 2000000}, {0, 0, 0, 900000}}},
    {"nothing at all", "0-2", "core:0,1,2@100", {{0}}},
    {"no list of processors", "", "core:0@100", {{0, 0, 1024}}},
    {"a list of nonsense", "0-x,7", "core:0@100", {{0, 0, 1024}}},
    {"a list backwards", "3-1", "core:0@100", {{0, 0, 1024}}},
    {"a register of nonsense", "0-1", "core:0,1@100", {{"zzzz", 0}, {"", 0}}},
    {"an odd name", "0", "a-b--c-:0@100", {{0, "v,a b\"\\c="}}},
    {"cores whose numbers have no letters",
     "0-7",
     "id-51-803:6,7@100 id-61-022:4,5@80 id-53-002:2,3@60 cortex-a55:0,1@24",
     {{A55, 0, 250},
      {A55, 0, 250},
      {MONGOOSE, 0, 620},
      {MONGOOSE, 0, 620},
      {ICESTORM, 0, 820},
      {ICESTORM, 0, 820},
      {KRYO, 0, 1024},
      {KRYO, 0, 1024}}},
    {"a name without a letter", "0", "core:0@100", {{0, "v,12-3"}}},
};
enum { BOARDS = sizeof boards / sizeof *boards };

static void put_board(struct sysroot *b, int i, enum cores way)
{
	sysroot_begin(b);
	if (boards[i].online[0])
		sysroot_set(b, CPU_DIR "online", "%s\n", boards[i].online);
	for (int cpu = 0; cpu < 8; cpu++) {
		const struct cpu *k = &boards[i].cpu[cpu];
		if (k->midr || k->compatible || k->capacity || k->khz)
			put_cpu(b, cpu, k, way);
	}
}

static void describe(const struct clusters *c, char *out, size_t n)
{
	size_t at = 0;
	for (int i = 0; i < c->n; i++) {
		int cpu[TOPO_CORES], cores = topo_firsts("/nowhere", &c->of[i].cpus, cpu, TOPO_CORES);
		at += (size_t)snprintf(out + at, n - at, "%s%s", i ? " " : "", c->of[i].name);
		for (int k = 0; k < cores; k++)
			at += (size_t)snprintf(out + at, n - at, "%c%d", k ? ',' : ':', cpu[k]);
		at += (size_t)snprintf(out + at, n - at, "@%d", c->of[i].speed);
		CHECK(cores == c->of[i].cores);
	}
}

TEST(clusters_of_boards)
{
	for (int n = 0; n < BOARDS * CORES_WAYS; n++) {
		struct sysroot b;
		struct clusters c;
		char found[512];
		int i = n / CORES_WAYS;
		put_board(&b, i, (enum cores)(n % CORES_WAYS));
		topo_clusters(b.root, NULL, &c);
		describe(&c, found, sizeof found);
		for (int k = 0; k < c.n; k++)
			CHECK(topo_is_name(c.of[k].name));
		if (strcmp(found, boards[i].clusters))
			printf("%s: found %s\n", boards[i].what, found);
		CHECK(!strcmp(found, boards[i].clusters));
		sysroot_end(&b);
	}
}

/* Every set of allowed processors leaves clusters with the names and the order of the whole board. */
TEST(a_part_of_a_board)
{
	for (int i = 0; i < BOARDS; i++) {
		struct sysroot b;
		struct clusters all, c;
		put_board(&b, i, (enum cores)(i % CORES_WAYS));
		topo_clusters(b.root, NULL, &all);
		for (int bits = 1; bits < 256; bits++) {
			cpu_set_t may, seen, online;
			CPU_ZERO(&online);
			for (int k = 0; k < all.n; k++)
				CPU_OR(&online, &online, &all.of[k].cpus);
			CPU_ZERO(&may);
			CPU_ZERO(&seen);
			for (int k = 0; k < 8; k++)
				if (bits >> k & 1)
					CPU_SET(k, &may);
			CPU_AND(&seen, &may, &online);
			if (!CPU_EQUAL(&seen, &may) || !CPU_COUNT(&may))
				continue;
			CPU_ZERO(&seen);
			topo_clusters(b.root, &may, &c);
			CHECK(c.n >= 1);
			for (int k = 0, was = -1; k < c.n; k++) {
				const struct cluster *of = topo_named(&all, c.of[k].name);
				CPU_OR(&seen, &seen, &c.of[k].cpus);
				REQUIRE(of && c.of[k].cores > 0);
				CHECK(of - all.of > was);
				was = (int)(of - all.of);
			}
			CHECK(CPU_EQUAL(&seen, &may));
		}
		sysroot_end(&b);
	}
}

static struct key key_of(const char *root, unsigned bits, bool lowered, struct target *t)
{
	struct clusters c;
	cpu_set_t may;
	CPU_ZERO(&may);
	for (int k = 0; k < 8; k++)
		if (bits >> k & 1)
			CPU_SET(k, &may);
	topo_clusters(root, &may, &c);
	*t = (struct target){.soc = "board", .isa = "armv8-a", .cpu = "generic", .lanes = 4};
	isa_cluster(&c.of[0], lowered, t);
	return target_key(t);
}

/* Results of one cluster are never those of another one, also where LLVM has no name for either, and where
 * the board pretends to be an older one; and they are the same whether the other one is online. */
TEST(each_cluster_has_a_key)
{
	for (int i = 0; i < BOARDS; i++) {
		struct sysroot b;
		struct clusters c;
		put_board(&b, i, (enum cores)(i % CORES_WAYS));
		topo_clusters(b.root, NULL, &c);
		for (int lowered = 0; lowered < 2; lowered++) {
			struct key key[TOPO_CLUSTERS];
			for (int k = 0; k < c.n; k++) {
				unsigned bits = 0;
				struct target t, back;
				struct buf text = {0};
				for (int cpu = 0; cpu < 8; cpu++)
					bits |= (unsigned)!!CPU_ISSET(cpu, &c.of[k].cpus) << cpu;
				key[k] = key_of(b.root, bits, lowered, &t);
				CHECK(t.cores == c.of[k].cores);
				for (int other = 0; other < k; other++)
					CHECK(!key_equal(key[other], key[k]));
				t.regs = 32;
				target_text(&t, &text);
				CHECK_OK(target_parse(buf_str(&text), &back));
				CHECK(!strcmp(back.cluster, t.cluster) &&
				      key_equal(target_key(&back), key[k]));
				buf_free(&text);
			}
		}
		sysroot_end(&b);
	}
	struct sysroot on, off;
	struct target t;
	put_board(&on, 0, CORES_THREADS);
	put_board(&off, 11, CORES_CLUSTERS);
	struct key big = key_of(on.root, 0x3f, false, &t);
	CHECK(!strcmp(t.cpu, "cortex-a72") && !t.cluster[0] && t.cores == 2);
	CHECK(key_equal(key_of(on.root, 0xf, false, &t), key_of(off.root, 0xf, false, &t)));
	CHECK(!strcmp(t.cpu, "cortex-a53") && !key_equal(big, target_key(&t)));
	sysroot_end(&on);
	sysroot_end(&off);
}

/* A device cpu:NAME binds, or fails; names of other devices do nothing. */
TEST(kept_to_a_cluster)
{
	static const char *const bad[] = {"cpu:", "cpu:51-803", "cpu:0", "cpu:a b", "cpu:a/b"};
	struct clusters c;
	cpu_set_t all, was, now;
	char name[TOPO_NAME + 8];
	topo_allowed(&all);
	topo_clusters("", &all, &c);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(topo_keep_to(bad[i], &was), E_USAGE, "must be cpu, cpu:CLUSTER");
	CHECK_FAILS(topo_keep_to("cpu:id-51-803", &was), E_NOTFOUND, "there is no cluster cpu:id-51-803");
	CHECK_OK(topo_keep_to("cpu", &was));
	CHECK_OK(topo_keep_to("cuda:0", &was));
	topo_allowed(&now);
	CHECK(CPU_EQUAL(&now, &all) && CPU_EQUAL(&was, &all));
	for (int i = 0; i < c.n; i++) {
		snprintf(name, sizeof name, "cpu:%s", c.of[i].name);
		CHECK_OK(topo_keep_to(name, &was));
		topo_allowed(&now);
		CHECK(CPU_EQUAL(&now, &c.of[i].cpus) && CPU_EQUAL(&was, &all));
		CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
	}
}

/* Lists are read as they are printed, and others are refused. */
TEST(lists_of_processors)
{
	static const char *const bad[] = {"",     ",",   "0,",    ",0", "1-",   "-1",
					  "3-1",  "0 1", "0-1-2", "x",  "1024", "0-99999999999",
					  "0,,1", " 0"};
	struct rng r;
	cpu_set_t set, again;
	rng_seed(&r, 2);
	for (int i = 0; i < 500; i++) {
		struct buf text = {0};
		CPU_ZERO(&set);
		for (int k = 1 + (int)rng_below(&r, 40), most = 1 + (int)rng_below(&r, CPU_SETSIZE); k > 0;
		     k--)
			CPU_SET(rng_below(&r, (uint32_t)most), &set);
		topo_list_text(&set, &text);
		CHECK(topo_list(buf_str(&text), &again) && CPU_EQUAL(&set, &again));
		buf_free(&text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!topo_list(bad[i], &set));
	CHECK(topo_list("0,2-3", &set) && CPU_COUNT(&set) == 3);
}

/* Hyper-threads of a core count once. */
TEST(hyper_threads)
{
	struct sysroot b;
	struct clusters c;
	int cpu[4];
	sysroot_begin(&b);
	sysroot_set(&b, CPU_DIR "online", "0-7\n");
	for (int i = 0; i < 8; i++) {
		char path[96];
		snprintf(path, sizeof path, CPU_DIR "cpu%d/topology/core_id", i);
		sysroot_set(&b, path, "%d\n", i % 4 / 2);
		snprintf(path, sizeof path, CPU_DIR "cpu%d/topology/physical_package_id", i);
		sysroot_set(&b, path, "%d\n", i / 4);
	}
	topo_clusters(b.root, NULL, &c);
	CHECK(c.n == 1 && c.of[0].cores == 4 && CPU_COUNT(&c.of[0].cpus) == 8);
	CHECK(topo_firsts(b.root, &c.of[0].cpus, cpu, 4) == 4 && cpu[0] == 0 && cpu[1] == 2 && cpu[3] == 6);
	CHECK(topo_firsts(b.root, &c.of[0].cpus, cpu, 1) == 4);
	sysroot_end(&b);
}

/* Boards of any clusters whose cores are numbered from 0 in each, with one to four threads each: neighbours,
 * or one of each round. All threads of a core are one core, and no others are. */
TEST(cores_numbered_in_each_cluster)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 90; i++) {
		const enum cores way = (enum cores)(i % CORES_WAYS);
		int core_of[64], cluster_of[64], within[64], cpu[TOPO_CORES], cores = 0, firsts = 0;
		const int threads = 1 + (int)rng_below(&r, 4), clusters = 1 + (int)rng_below(&r, 3);
		const bool rounds = rng_below(&r, 2);
		for (int k = 0; k < clusters; k++)
			for (int n = 1 + (int)rng_below(&r, 5), at = 0; at < n; at++, cores++) {
				cluster_of[cores] = k;
				within[cores] = at;
			}
		struct sysroot b;
		struct clusters c;
		cpu_set_t part = {{0}};
		bool seen[64] = {false};
		sysroot_begin(&b);
		sysroot_set(&b, CPU_DIR "online", "0-%d\n", cores * threads - 1);
		for (int k = 0; k < cores * threads; k++) {
			core_of[k] = rounds ? k % cores : k / threads;
			cpu_set_t own = {{0}};
			for (int t = 0; t < threads; t++)
				CPU_SET((size_t)(rounds ? core_of[k] + t * cores : core_of[k] * threads + t),
					&own);
			put_core(&b, k, way, cluster_of[core_of[k]], within[core_of[k]], &own);
			if (rng_below(&r, 2))
				CPU_SET((size_t)k, &part);
		}
		topo_clusters(b.root, NULL, &c);
		CHECK(c.n == 1 && c.of[0].cores == cores);
		int n = topo_firsts(b.root, &part, cpu, TOPO_CORES);
		for (int k = 0; k < cores * threads; k++)
			if (CPU_ISSET(k, &part) && !seen[core_of[k]]) {
				seen[core_of[k]] = true;
				CHECK(firsts < n && cpu[firsts] == k);
				firsts++;
			}
		CHECK(firsts == n);
		sysroot_end(&b);
	}
}

/* Files with anything in them: the clusters are always whole. */
TEST(random_files)
{
	static const char *const texts[] = {"",         "\n",
					    "1024\n",   "0x00000000410fd034\n",
					    "-5\n",     "99999999999999999999\n",
					    "0-3,5\n",  "arm,cortex-a53",
					    "\xff\xfe", "0-1023\n",
					    ",",        "700 x\n"};
	static const char *const leaves[] = {"cpu_capacity",       "cpufreq/cpuinfo_max_freq",
					     "of_node/compatible", "regs/identification/midr_el1",
					     "topology/core_id",   "topology/thread_siblings_list",
					     "topology/cluster_id"};
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < 60; i++) {
		struct sysroot b;
		struct clusters c;
		int cores = 0, threads = 0;
		sysroot_begin(&b);
		sysroot_set(&b, CPU_DIR "online", "%s",
			    rng_below(&r, 3) ? "0-9,12-13" : texts[rng_below(&r, 12)]);
		for (int k = 0; k < 30; k++) {
			char path[96];
			snprintf(path, sizeof path, CPU_DIR "cpu%d/%s", (int)rng_below(&r, 14),
				 leaves[rng_below(&r, 7)]);
			sysroot_set(&b, path, "%s", texts[rng_below(&r, 12)]);
		}
		topo_clusters(b.root, NULL, &c);
		for (int k = 0; k < c.n; k++) {
			cores += c.of[k].cores;
			threads += CPU_COUNT(&c.of[k].cpus);
			CHECK(c.of[k].speed >= 0 && c.of[k].speed <= 100 && c.of[k].name[0]);
			CHECK(topo_named(&c, c.of[k].name) == &c.of[k]);
		}
		CHECK(c.n >= 1 && c.n <= TOPO_CLUSTERS && cores >= 1 && threads >= cores);
		sysroot_end(&b);
	}
}

TEST_MAIN
