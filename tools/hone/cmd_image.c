/* SPDX-License-Identifier: Apache-2.0 */
/* Puts hone, models and a seed pack into an image file. This file checks what hone itself knows about: models
 * and packs. hone-image, a shell script (tools/build/hone-image.sh), reads and writes the image. Where a
 * board gets hone, nobody makes images, so hone itself stays as small as it can be. */
#include "agent/cache/json.h"
#include "agent/control/conf.h"
#include "agent/sync/pack.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/next.h"
#include "tools/hone/model.h"
#include "tools/hone/table.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMAGE_MODELS "/usr/share/hone/models"
#define IMAGE_CONF CONF_FILE ".d/image.conf"

enum { WORDS = 160, NAME = 48, LINE = 4096 };

struct image {
	const struct args *a;
	struct arena arena;
	char *word[WORDS]; /* of hone-image's command line */
	int nwords;
	struct pack_about pack;
	/* These are the lines that hone-image printed. */
	char error[LINE], arch[32];
	json_t *notes;
	int partition, files, written, removed;
};

/* Finds a program beside this one, or where `make install` puts it. */
static int find(struct arena *arena, const char *name, const char **out)
{
	char dir[PATH_MAX];
	int rc = file_self_dir(dir, sizeof dir);
	if (rc < 0)
		return rc;
	*out = arena_printf(arena, "%s/%s", dir, name);
	if (access(*out, X_OK) == 0)
		return E_OK;
	*out = arena_printf(arena, "%s/../lib/hone/%s", dir, name);
	if (access(*out, X_OK) == 0)
		return E_OK;
	return fail(E_NOTFOUND, "%s is not beside hone: make install puts it there", name);
}

static int add(struct image *m, const char *option, const char *value)
{
	if (m->nwords == WORDS - 1)
		return fail(E_USAGE, "too many options");
	m->word[m->nwords++] = arena_printf(&m->arena, "--%s=%s", option, value);
	return E_OK;
}

static int add_given(struct image *m, const char *option, const char *as)
{
	const char *value = arg_str(m->a, option, NULL);
	if (!value)
		return E_OK;
	return *value && !strchr(value, '\n') ? add(m, as, value)
					      : fail(E_USAGE, "--%s has no name behind it", option);
}

/* Name of the model's section and file in the image: that of its file, of letters, digits, '-' and '_'. */
static int name_of(struct image *m, const char *path, const char **out)
{
	char *name = arena_printf(&m->arena, "%s", model_name(path, &m->arena));
	for (char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			*p = '_';
	if (!*name || strlen(name) >= NAME || *name == '-')
		return fail(E_USAGE,
			    "%s: a model's file name gives it its name in honed.conf, up to %d "
			    "letters: rename the file",
			    path, NAME - 1);
	*out = name;
	return E_OK;
}

/* Reads the model as honed's job will, and checks that its file is all of it. */
static int check_model(struct image *m, const char *path)
{
	struct graph *g = NULL;
	struct blob file;
	struct arena arena = {0};
	int rc = model_import(m->a, path, &g);
	if (rc < 0)
		return rc;
	graph_free(g);
	/* The image gets this one file. */
	const struct import_bind *binds;
	int n = model_binds(m->a, &arena, &binds);
	rc = n < 0 ? n : file_read(&arena, path, 0, &file);
	if (rc >= 0 &&
	    import_bytes(file.p, file.n, NULL, &(struct import_opts){.nbinds = n, .binds = binds}, &g) < 0)
		rc = fail(E_UNSUPPORTED,
			  "%s keeps weights in files beside it: an image takes models of one file; save it "
			  "with its "
			  "weights inside (onnx.save_model(model, FILE))",
			  path);
	else if (rc >= 0)
		graph_free(g);
	arena_free(&arena);
	return rc;
}

static int add_models(struct image *m)
{
	static const char *const kept[] = {"level", NULL};
	const char *const *path, *const *shape, *names[CONF_MODELS];
	int n = arg_list(m->a, "model", &path), nshapes = arg_list(m->a, "shape", &shape);
	if (n > CONF_MODELS)
		return fail(E_USAGE, "at most %d models", CONF_MODELS);
	if (n != 1 && (nshapes || arg_given(m->a, "level") || arg_given(m->a, "threads")))
		return fail(E_USAGE,
			    "--shape, --level and --threads are of one --model; for several, write their "
			    "sections [model NAME] into a file and give it as --config");
	for (int i = 0; i < n; i++) {
		int rc = name_of(m, path[i], &names[i]);
		for (int k = 0; k < i && rc >= 0; k++)
			if (!strcmp(names[i], names[k]))
				rc = fail(E_USAGE, "two models are called %s: rename one's file", names[i]);
		if (rc >= 0)
			rc = check_model(m, path[i]);
		if (rc >= 0)
			rc = add(m, "model", arena_printf(&m->arena, "%s=%s", names[i], path[i]));
		for (int k = 0; k < nshapes && rc >= 0; k++)
			rc = add(m, "set", arena_printf(&m->arena, "%s=shape=%s", names[i], shape[k]));
		for (int k = 0; kept[k] && rc >= 0; k++)
			if (arg_given(m->a, kept[k]))
				rc = add(m, "set",
					 arena_printf(&m->arena, "%s=%s=%s", names[i], kept[k],
						      arg_str(m->a, kept[k], "")));
		if (rc >= 0 && arg_given(m->a, "threads"))
			rc = add(m, "set",
				 arena_printf(&m->arena, "%s=threads=%lld", names[i],
					      (long long)arg_int(m->a, "threads", 0)));
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int check_pack(struct image *m)
{
	const char *path = arg_str(m->a, "pack", NULL), *cls = arg_str(m->a, "class", NULL);
	if (cls && (!path || strlen(cls) != 32 || strspn(cls, "0123456789abcdef") != 32))
		return fail(
		    E_USAGE,
		    "--class is the class of the --pack's boards: 32 hex digits, as `hone pack --json` "
		    "prints them on such a board");
	if (!path)
		return E_OK;
	int rc = pack_describe(path, &m->pack);
	if (rc < 0)
		return rc;
	if (!m->pack.records)
		return fail(E_UNSUPPORTED, "%s is empty: tune on a board, and make it with hone pack there",
			    path);
	if (cls && strcmp(cls, m->pack.cls) && strcmp(m->pack.cls, "any"))
		return fail(
		    E_WRONG,
		    "%s is for boards of class %s (%s), not of %s: the board would not use it. Make it on a "
		    "board of that class, or from a fleet: hone pack --from FOLDER --class %s",
		    path, m->pack.cls, m->pack.label, cls, cls);
	rc = add(m, "pack", path);
	/* Records say for which instruction set they are; those of a pack for several classes may be for all.
	 */
	static const char *const isa[][2] = {
	    {"x86-64-", "amd64"}, {"armv8-", "arm64"}, {"armv7-", "armhf"}, {NULL, NULL}};
	for (int i = 0; isa[i][0] && rc >= 0; i++)
		if (strstr(m->pack.label, isa[i][0]))
			rc = add(m, "pack-arch", isa[i][1]);
	return rc;
}

/* Takes one line of hone-image's. */
static void heed(struct image *m, char *line)
{
	char *value = strchr(line, ' ');
	const struct {
		const char *name;
		int *to;
	} number[] = {{"partition", &m->partition},
		      {"files", &m->files},
		      {"written", &m->written},
		      {"removed", &m->removed}};
	if (!value)
		return;
	*value++ = 0;
	for (size_t i = 0; i < sizeof number / sizeof *number; i++)
		if (!strcmp(line, number[i].name))
			*number[i].to = atoi(value);
	if (!strcmp(line, "arch"))
		snprintf(m->arch, sizeof m->arch, "%s", value);
	if (!strcmp(line, "error"))
		snprintf(m->error, sizeof m->error, "%s", value);
	if (!strcmp(line, "note"))
		json_array_append_new(m->notes, json_text(value));
}

static int start(struct image *m)
{
	int fd[2], status;
	char line[LINE];
	if (pipe(fd) < 0)
		return fail(E_IO, "pipe: %s", strerror(errno));
	fflush(NULL);
	pid_t hone = getpid(), pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_DFL); /* hone ignores both */
		signal(SIGPIPE, SIG_DFL);
		/* A run whose hone was killed leaves no image. */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != hone)
			_exit(127);
		if (dup2(fd[1], STDOUT_FILENO) >= 0 && close(fd[0]) == 0)
			execv(m->word[0], m->word);
		_exit(127);
	}
	close(fd[1]);
	FILE *f = pid < 0 ? NULL : fdopen(fd[0], "r");
	int why = errno;
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		heed(m, line);
	}
	if (f)
		fclose(f);
	else
		close(fd[0]); /* hone-image ends by SIGPIPE then */
	while (pid >= 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail(E_IO, "%s: %s", m->word[0], strerror(errno));
	if (!f)
		return fail(E_IO, "%s cannot be started: %s", m->word[0], strerror(why));
	if (*m->error)
		return fail(E_UNSUPPORTED, "%s", m->error);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return E_OK;
	return fail(E_IO, "%s ended with status %d", m->word[0],
		    WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int print(struct image *m, const char *out)
{
	const char *pack = arg_str(m->a, "pack", NULL);
	if (m->a->json)
		return json_out(json_pack(
		    "{ss so si ss si si si so ss* ss*}", "command", "image", "file", json_text(out),
		    "partition", m->partition, "arch", m->arch, "file_count", m->files, "written", m->written,
		    "removed", m->removed, "notes", json_incref(m->notes), "pack_class",
		    pack ? m->pack.cls : NULL, "pack_label", pack && *m->pack.label ? m->pack.label : NULL));
	table_say("%s: %d files of hone in the root (partition %d, %s), %d of them written now%s", out,
		  m->files, m->partition, m->arch, m->written,
		  m->removed ? ", what an earlier run had left removed" : "");
	next_flush();
	size_t i;
	json_t *note;
	json_array_foreach(m->notes, i, note)
	{
		log_info("hone: note: %s", json_string_value(note));
	}
	if (pack && strcmp(m->pack.cls, "any"))
		log_info("the pack serves boards of class %s (%s); others ignore it", m->pack.cls,
			 m->pack.label);
	log_info("flash it as any image of this system; its first boot tunes before the application starts. "
		 "On the "
		 "board, `hone status` and `systemctl status hone-boot` say what came of it");
	return E_OK;
}

/* As honed.conf takes it. */
static int add_budget(struct image *m)
{
	int64_t ms = arg_duration(m->a, "budget", 0) / NS_PER_MS;
	if (ms > 3600 * 1000)
		return fail(E_USAGE, "--budget: at most 1h");
	return add(m, "budget",
		   arena_printf(&m->arena, "%lld%s", (long long)(ms % 1000 ? ms : ms / 1000),
				ms % 1000 ? "ms" : "s"));
}

static int gather(struct image *m, const char *out)
{
	static const char *const same[] = {"root", "config", NULL};
	const struct args *a = m->a;
	const char *program, *honed, *const *app;
	int rc = find(&m->arena, "hone-image", &program), napps = arg_list(a, "app", &app);
	if (rc < 0)
		return rc;
	m->word[m->nwords++] = arena_printf(&m->arena, "%s", program);
	rc = add(m, "in", a->pos[0]);
	if (rc >= 0)
		rc = add(m, "out", out);
	for (int i = 0; same[i] && rc >= 0; i++)
		rc = add_given(m, same[i], same[i]);
	if (rc >= 0 && arg_given(a, "budget"))
		rc = add_budget(m);
	if (rc >= 0 && arg_given(a, "spare"))
		rc = add(m, "spare", arena_printf(&m->arena, "%lld", (long long)arg_size(a, "spare", 0)));
	if (rc >= 0 && arg_given(a, "partition"))
		rc = add(m, "partition",
			 arena_printf(&m->arena, "%lld", (long long)arg_int(a, "partition", 0)));
	for (int i = 0; i < napps && rc >= 0; i++) {
		bool unit =
		    file_ends_with(app[i], ".service") &&
		    !app[i][strspn(app[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
					   "_.@-")];
		rc = unit ? add(m, "app", app[i])
			  : fail(E_USAGE, "--app %s: name the unit of the application, such as robot.service",
				 app[i]);
	}
	if (rc >= 0 && find(&m->arena, "honed", &honed) >= 0)
		rc = add(m, "honed", honed);
	if (rc >= 0)
		rc = add_models(m);
	return rc < 0 ? rc : check_pack(m);
}

static int run_image(const struct args *a)
{
	struct image m = {.a = a, .notes = json_array()};
	const char *out = arg_str(a, "output", NULL);
	int rc = E_OK;
	if (!out || !*out || !arg_given(a, "root"))
		rc = fail(E_USAGE, "missing %s",
			  !out || !*out ? "-o OUT.img"
					: "--root TARBALL (make tarball BOARD=NAME "
					  "makes one)");
	if (rc >= 0)
		rc = gather(&m, out);
	if (rc >= 0)
		rc = start(&m);
	if (rc >= 0)
		rc = print(&m, out);
	json_decref(m.notes);
	arena_free(&m.arena);
	return rc;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "OUT.img", "the image to write; an existing one is replaced if hone image wrote it",
     'o'},
    {"root", OPT_STR, "TARBALL", "programs for the board, as `make tarball BOARD=NAME` packs them"},
    {"model", OPT_LIST, "MODEL",
     "ONNX model to tune; the image gets it as " IMAGE_MODELS "/NAME.onnx, where NAME is its file's name"},
    {"pack", OPT_STR, "FILE.seg", "seed pack (hone pack), put into " CACHE_SEED},
    {"class", OPT_STR, "CLASS", "class of the board: a --pack for boards of another class is refused"},
    {"config", OPT_STR, "FILE",
     "becomes " CONF_FILE " (default: the image's own, else an example without settings)"},
    {"budget", OPT_DURATION, "20s", "length of the box at each boot (default: as configured, else 20s)"},
    {"app", OPT_LIST, "UNIT",
     "unit of an application, such as robot.service, that is to start after the box"},
    {"partition", OPT_INT, "N", "the root's partition (default: the one with ext4 and /etc/os-release)"},
    {"spare", OPT_SIZE, "64M",
     "make the root larger in OUT.img where less would be left free; it has to be the last partition"},
    OPT_SHAPE,
    OPT_THREADS,
    {"level", OPT_STR, "LEVEL", "how much kernels may round (hone tune --help)",
     .values = "exact fp32 w16 half half-sum int8"},
    {NULL},
};

const struct cmd cmd_image = {
    .usage = "IN.img -o OUT.img --root TARBALL --model MODEL [--pack FILE.seg] [options]",
    .summary = "put hone, a model and a seed pack into a system's image, to be flashed",
    .details =
	"IN.img is an image of Debian or Raspberry Pi OS, unpacked: a disk with an MBR or a GPT (primary\n"
	"partitions, sectors of 512 bytes) or one ext4 file system. OUT.img is a copy of it that also has\n"
	"hone, the models and the pack. At its first boot systemd makes hone's users and folders, a box "
	"tunes\n"
	"the models, and then the application of --app starts; later honed goes on while the board is "
	"idle.\n\n"
	"It needs neither root nor a loop device, but debugfs and e2fsck (apt-get install e2fsprogs). "
	"IN.img\n"
	"is not changed, and OUT.img appears when it is complete. The same inputs give the same bytes (with\n"
	"--spare, but for times). Run on an image that it wrote, it replaces what it had put there:\n"
	"programs, models, the pack and settings.\n\n"
	"Settings of the command line become " IMAGE_CONF ", which is\n"
	"read after " CONF_FILE "; other files beside it stay. If honed is beside hone, it\n"
	"checks the whole configuration first. Programs that need packages which the image does not have "
	"are\n"
	"refused; a tarball that was made without DYNAMIC=1 has programs that need none. The root file "
	"system\n"
	"must have been unmounted. The pack serves boards of its class; others ignore it, and --class "
	"checks\n"
	"that it is theirs.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_image,
    .name = "image",
};
