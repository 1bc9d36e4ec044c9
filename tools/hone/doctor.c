/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/doctor_parts.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <string.h>

#define LATER_NS (150 * NS_PER_MS)

static const struct {
	const char *name;
	doctor_check *check;
	bool live; /* concerns this process and the programs beside it: skipped for another root */
} checks[] = {
    {"configuration", doctor_configuration, false},
    {"honed", doctor_honed, false}, /* early: its cache and process are looked at */
    {"board", doctor_identity, false},
    {"gate", doctor_gate, false},
    {"governor", doctor_governor, false},
    {"clock", doctor_clock, false},
    {"power-mode", doctor_mode, false},
    {"cores", doctor_cores, false},
    {"heat", doctor_heat, false},
    {"throttle", doctor_throttle, false},
    {"battery", doctor_battery, false},
    {"pressure", doctor_pressure, false},
    {"memory-cgroup", doctor_memory_group, false},
    {"memory", doctor_memory, false},
    {"swap", doctor_swap, false},
    {"time", doctor_time, false},
    {"cache", doctor_cache, false},
    {"records", doctor_records, true},
    {"honed-cache", doctor_store, false},
    {"space", doctor_space, false},
    {"flash", doctor_flash, false},
    {"units", doctor_units, false},
    {"worker", doctor_worker, true},
    {"devices", doctor_devices, true},
    {"opencl", doctor_opencl, false}, /* drivers are asked on this machine alone */
    {"cuda", doctor_cuda, false},
    {"code", doctor_code, true},
    {"limits", doctor_limits, true},
};

const char *finding_word(enum finding_kind k)
{
	static const char *const words[] = {"ok", "note", "warning", "problem"};
	return words[k];
}

void doctor_say(struct doctor *d, enum finding_kind k, const char *remedy, const char *fmt, ...)
{
	va_list ap, again;
	if (d->n == FINDINGS)
		return;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	char *what = arena_alloc(d->a, (size_t)(n > 0 ? n : 0) + 1);
	vsnprintf(what, (size_t)(n > 0 ? n : 0) + 1, fmt, again);
	va_end(again);
	va_end(ap);
	log_plain(what);
	for (char *at = what; (at = strpbrk(at, "\n\t"));)
		*at = ' ';
	d->finding[d->n++] = (struct finding){k, d->check, what, arena_strdup(d->a, remedy)};
}

static void meet(struct doctor *d)
{
	static const char *const model[] = {"/proc/device-tree/model", "/sys/firmware/devicetree/base/model",
					    "/sys/class/dmi/id/product_name"};
	for (size_t i = 0; i < sizeof model / sizeof *model && !d->model[0]; i++)
		sysfile_line(d->root, model[i], d->model, sizeof d->model);
	sysfile_line(d->root, "/proc/cmdline", d->cmdline, sizeof d->cmdline);
	d->raspberry = strstr(d->model, "Raspberry Pi");
	d->jetson = strstr(d->model, "Jetson") || strstr(d->model, "Tegra");
}

static int look_twice(struct doctor *d)
{
	struct vitals_reader *r;
	int rc = vitals_open(d->root, &r);
	if (rc < 0)
		return rc;
	vitals_read(r, clock_now(&clock_real), &d->v);
	clock_real.sleep(&clock_real, *d->root ? 0 : LATER_NS); /* files of another root do not change */
	vitals_read(r, clock_now(&clock_real), &d->later);
	vitals_close(r);
	return E_OK;
}

int doctor_look(const struct doctor_options *o, struct arena *a, const struct finding **out)
{
	struct doctor d = {.o = o, .root = o->sysroot ? o->sysroot : "", .a = a};
	d.finding = ARENA_ARRAY(a, struct finding, FINDINGS);
	meet(&d);
	int rc = look_twice(&d);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		d.check = checks[i].name;
		if (o->stop && *o->stop)
			break;
		if (!checks[i].live || !*d.root)
			checks[i].check(&d);
	}
	json_decref(d.status);
	*out = d.finding;
	return d.n;
}
