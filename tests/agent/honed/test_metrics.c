/* SPDX-License-Identifier: Apache-2.0 */
/* honed's output for others: metrics in Prometheus's format, the dashboard over them, the log. */
#include "tests/lib/honed_board.h"
#include <ctype.h>
#include <jansson.h>

enum { MOST_NAMES = 64, MOST_SERIES = 512 };

struct metrics {
	int n;
	struct metric {
		char name[80], type[16];
		bool helped, done; /* done: another metric has begun since */
		int rows;
	} metric[MOST_NAMES];
	int nseries;
	char *series[MOST_SERIES];
	const char *bad;
	char at[128];
};

static struct metric *find(struct metrics *m, const char *name, size_t n)
{
	for (int i = 0; i < m->n; i++)
		if (strlen(m->metric[i].name) == n && !strncmp(m->metric[i].name, name, n))
			return &m->metric[i];
	return NULL;
}

static size_t name_bytes(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return strncmp(s, "hone_", 5) ? 0 : n;
}

/* Length in bytes of a label set {a="b",c="d"} with the format's escapes; 0: it is none. */
static size_t label_bytes(const char *s)
{
	const char *p = s;
	if (*p != '{')
		return 0;
	do {
		size_t n = strspn(++p, "abcdefghijklmnopqrstuvwxyz_");
		if (!n || strncmp(p + n, "=\"", 2))
			return 0;
		for (p += n + 2; *p && *p != '"'; p++) {
			if (*p == '\\' && !strchr("\\\"n", *++p))
				return 0;
			if ((unsigned char)*p < ' ')
				return 0;
		}
		if (*p++ != '"')
			return 0;
	} while (*p == ',');
	return *p == '}' ? (size_t)(p + 1 - s) : 0;
}

static const char *take_comment(struct metrics *m, const char *line)
{
	bool help = !strncmp(line, "# HELP ", 7);
	const char *name = line + 7;
	size_t n = name_bytes(name);
	if ((!help && strncmp(line, "# TYPE ", 7)) || !n || n >= 80 || name[n] != ' ' || !name[n + 1])
		return "neither HELP nor TYPE";
	struct metric *x = find(m, name, n);
	if (help) {
		if (x || m->n == MOST_NAMES)
			return "HELP twice";
		if (m->n)
			m->metric[m->n - 1].done = true;
		snprintf(m->metric[m->n].name, 80, "%.*s", (int)n, name);
		m->metric[m->n++].helped = true;
		return NULL;
	}
	if (!x || x->type[0] || x->done || x->rows)
		return "TYPE before HELP, twice or late";
	snprintf(x->type, sizeof x->type, "%s", name + n + 1);
	return strcmp(x->type, "gauge") && strcmp(x->type, "counter") ? "no such type" : NULL;
}

static const char *take_row(struct metrics *m, const char *line)
{
	size_t n = name_bytes(line), l;
	struct metric *x = find(m, line, n);
	if (!n || !x || !x->type[0])
		return "a row without HELP and TYPE";
	if (x->done)
		return "rows are apart";
	l = label_bytes(line + n);
	char *end;
	double v = strtod(line + n + l, &end);
	if (line[n + l] != ' ' || end == line + n + l || *end || v != v)
		return "no value";
	if (!strcmp(x->type, "counter") && v < 0)
		return "a counter below 0";
	for (int i = 0; i < m->nseries; i++)
		if (!strncmp(m->series[i], line, n + l) && m->series[i][n + l] == ' ')
			return "twice";
	m->series[m->nseries++] = strdup(line);
	x->rows++;
	return m->nseries == MOST_SERIES ? "too many rows" : NULL;
}

/* Checks names by Prometheus's rules: base units, _total only for counters. */
static const char *check_name(const struct metric *x)
{
	static const char *const not [] = {"milli",   "micro", "nano", "percent", "_ms",
					   "minutes", "hours", "kib",  "mib"};
	size_t n = strlen(x->name);
	bool total = n > 6 && !strcmp(x->name + n - 6, "_total");
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		if (strstr(x->name, not [i]))
			return "no base unit";
	return total != !strcmp(x->type, "counter") ? "_total is for counters, and they have it" : NULL;
}

static void parse(struct metrics *m, const char *text)
{
	char *copy = strdup(text), *save = NULL;
	memset(m, 0, sizeof *m);
	CHECK(!strstr(text, "\n\n") && text[strlen(text) - 1] == '\n');
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *bad = *line == '#' ? take_comment(m, line) : take_row(m, line);
		if (bad) {
			m->bad = bad;
			snprintf(m->at, sizeof m->at, "%s", line);
		}
	}
	for (int i = 0; i < m->n; i++) {
		const char *bad = check_name(&m->metric[i]);
		if (bad) {
			m->bad = bad;
			snprintf(m->at, sizeof m->at, "%s", m->metric[i].name);
		}
	}
	free(copy);
}

static void forget(struct metrics *m)
{
	for (int i = 0; i < m->nseries; i++)
		free(m->series[i]);
}

static double value_of(const struct metrics *m, const char *series)
{
	for (int i = 0; i < m->nseries; i++)
		if (!strncmp(m->series[i], series, strlen(series)) && m->series[i][strlen(series)] == ' ')
			return strtod(m->series[i] + strlen(series), NULL);
	printf("no row %s\n", series);
	test_bad = 1;
	return 0;
}

static void metrics_of(struct board *b, struct metrics *m)
{
	struct buf text = {0};
	honed_metrics(b->h, b->now_ns, &text);
	CHECK(buf_ok(&text));
	parse(m, buf_str(&text));
	if (m->bad)
		printf("%s: %s\n", m->bad, m->at);
	CHECK(!m->bad);
	buf_free(&text);
}

/* Returns a honed that has tuned one model, works on the next, and had to yield. */
static struct board *busy(void)
{
	struct board *b = board_new(HONED_RESIDENT, 3);
	b->model[1].name = "a \"quoted\\name\"";
	b->model[2].name = "\xc3\xa9t\xc3\xa9\ntwo";
	b->vitals.temp_mc = 51500;
	board_start(b);
	board_run(b, 12 * NS_PER_S);
	board_started(b, b->last_job);
	board_done(b, b->last_job, 6, 3, 0, 0.25);
	board_run(b, NS_PER_S);
	board_started(b, b->last_job);
	b->now_ns += NS_PER_S;
	b->vitals.at_ns = b->now_ns;
	b->vitals.total_ns += 4 * NS_PER_S;
	b->vitals.busy_ns += NS_PER_S / 10;
	board_event(b, (struct honed_event){.kind = HE_VITALS, .vitals = &b->vitals, .minute = 600});
	return b;
}

TEST(metrics_are_as_prometheus_reads_them)
{
	struct metrics m;
	struct board *b = busy();
	metrics_of(b, &m);
	CHECK(m.n >= 20);
	CHECK(value_of(&m, "hone_info{version=\"" HONE_VERSION "\",mode=\"resident\"}") == 1);
	CHECK(value_of(&m, "hone_model_before_seconds{model=\"a\"}") == 0.006);
	CHECK(value_of(&m, "hone_model_now_seconds{model=\"a\"}") == 0.003);
	CHECK(value_of(&m, "hone_model_promise_ratio{model=\"a\"}") == 0.25);
	CHECK(value_of(&m, "hone_model_ready{model=\"a \\\"quoted\\\\name\\\"\"}") >= 0);
	CHECK(value_of(&m, "hone_temperature_celsius") == 51.5);
	CHECK(value_of(&m, "hone_headroom_celsius") == 40);
	CHECK(value_of(&m, "hone_gate_open") == 1);
	CHECK(value_of(&m, "hone_jobs") == 1);
	CHECK(value_of(&m, "hone_trials_total") == 10);
	CHECK(value_of(&m, "hone_jobs_started_total") == 2);
	CHECK(value_of(&m, "hone_load_ratio") == 0.025);
	CHECK(value_of(&m, "hone_model_missing_kernels{model=\"a\"}") == 0);
	forget(&m);
	board_connect(b, 1, 0);
	board_ask(b, 1, "{\"op\":\"inhibit\",\"why\":\"arm\"}");
	metrics_of(b, &m);
	CHECK(value_of(&m, "hone_gate_open") == 0);
	CHECK(value_of(&m, "hone_gate_reason{why=\"inhibited\"}") == 1);
	CHECK(value_of(&m, "hone_gate_reason{why=\"hot\"}") == 0);
	CHECK(value_of(&m, "hone_inhibits") == 1 && value_of(&m, "hone_yields_total") == 1);
	forget(&m);
	board_free(b);
}

TEST(metrics_of_one_that_knows_nothing_yet)
{
	static const enum honed_mode modes[] = {HONED_RESIDENT, HONED_BOX};
	for (int i = 0; i < 2; i++) {
		struct metrics m;
		struct board *b = board_new(modes[i], 2 * i);
		b->vitals = (struct vitals){0};
		board_start(b);
		metrics_of(b, &m);
		CHECK(!find(&m, "hone_temperature_celsius", 24));
		forget(&m);
		board_free(b);
	}
}

/* The check itself finds errors. */
TEST(bad_metrics_are_found)
{
	static const char *const bad[] = {
	    "hone_x 1\n",
	    "# HELP hone_x X.\nhone_x 1\n",
	    "# TYPE hone_x gauge\nhone_x 1\n",
	    "# HELP hone_x X.\n# TYPE hone_x counter\nhone_x 1\n",
	    "# HELP hone_x_total X.\n# TYPE hone_x_total gauge\nhone_x_total 1\n",
	    "# HELP hone_x_ms X.\n# TYPE hone_x_ms gauge\nhone_x_ms 1\n",
	    "# HELP hone_x X.\n# TYPE hone_x gauge\nhone_x nan\n",
	    "# HELP hone_x X.\n# TYPE hone_x gauge\nhone_x 1\nhone_x 2\n",
	    "# HELP hone_x X.\n# TYPE hone_x gauge\nhone_x{a=\"b} 1\n",
	    "# HELP hone_x X.\n# TYPE hone_x gauge\nhone_x{a=\"\\b\"} 1\n",
	    "# HELP hone_x X.\n# TYPE hone_x gauge\n# HELP hone_y Y.\n# TYPE hone_y gauge\nhone_x 1\n",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct metrics m;
		parse(&m, bad[i]);
		CHECK(m.bad);
		forget(&m);
	}
}

/* Checks that every hone_ word of an expression is a metric; returns their number. */
static int check_expression(struct metrics *m, const char *expr)
{
	int n = 0;
	for (const char *p = expr; (p = strstr(p, "hone_")); p += name_bytes(p), n++) {
		CHECK(p == expr || !isalnum((unsigned char)p[-1]));
		if (!find(m, p, name_bytes(p))) {
			printf("the dashboard shows %.*s, which honed does not report\n", (int)name_bytes(p),
			       p);
			test_bad = 1;
		}
	}
	int depth = 0;
	for (const char *p = expr; *p && depth >= 0; p++)
		depth += !!strchr("([{", *p) - !!strchr(")]}", *p);
	CHECK(depth == 0);
	return n;
}

TEST(the_dashboard_shows_what_is_there)
{
	struct metrics m;
	json_error_t e;
	json_t *d = json_load_file("configs/grafana/hone.json", JSON_REJECT_DUPLICATES, &e);
	if (!d)
		printf("configs/grafana/hone.json:%d: %s\n", e.line, e.text);
	REQUIRE(d);
	struct board *b = busy();
	metrics_of(b, &m);
	json_t *panels = json_object_get(d, "panels"), *p, *t;
	size_t i, k;
	int used = 0, area = 0;
	json_array_foreach(panels, i, p)
	{
		const json_t *at = json_object_get(p, "gridPos"), *targets = json_object_get(p, "targets");
		CHECK(json_string_value(json_object_get(p, "title")) &&
		      json_string_value(json_object_get(p, "description")));
		CHECK(json_array_size(targets) >= 1);
		CHECK(json_integer_value(json_object_get(at, "x")) +
			  json_integer_value(json_object_get(at, "w")) <=
		      24);
		area += (int)(json_integer_value(json_object_get(at, "w")) *
			      json_integer_value(json_object_get(at, "h")));
		json_array_foreach(targets, k, t)
		{
			const char *expr = json_string_value(json_object_get(t, "expr"));
			REQUIRE(expr);
			int n = check_expression(&m, expr);
			CHECK(n >= 1);
			used += n;
		}
	}
	CHECK(used >= 20 && json_array_size(panels) >= 12);
	CHECK(area % 24 == 0); /* rows are full */
	json_decref(d);
	forget(&m);
	board_free(b);
}

static int logged, strange;

/* Checks a log line as for the journal: one line, no control characters, and it says what it is about. */
static void log_act(void *ctx, const struct honed_action *a)
{
	if (a->kind == HA_LOG || a->kind == HA_STATUS) {
		logged++;
		for (const char *p = a->text; *p; p++)
			if ((unsigned char)*p < ' ' || *p == 0x7f) {
				strange++;
				printf("a control character in: %s\n", a->text);
				break;
			}
		if (!a->text[0] || strlen(a->text) > 1000)
			strange++;
	}
	board_act(ctx, a);
}

TEST(log_lines_are_one_plain_line)
{
	static const char evil[] = "e\033[2Jvil\nname\r\x7f";
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->model[0].name = b->model[0].path = evil;
	b->o.act = log_act;
	logged = strange = 0;
	board_start(b);
	board_run(b, 12 * NS_PER_S);
	board_started(b, b->last_job);
	board_ask(b, 1001,
		  "{\"op\":\"progress\",\"task\":1,\"ntasks\":2,\"trials\":3,\"before_ms\":2,\"now_ms\":1,"
		  "\"left_ms\":3,\"label\":\"\\u001b[2Jx\\ny\"}");
	board_run(b, 2 * NS_PER_S);
	CHECK(strstr(board_status(b), ",\"task\":2,\"ntasks\":2,")); /* counted from 1, as people count */
	board_connect(b, 1, 0);
	board_ask(b, 1, "{\"id\":1,\"op\":\"inhibit\",\"why\":\"\\u001b[31m\\nwhy\"}");
	board_run(b, 2 * NS_PER_S);
	board_ask(b, 1, "{\"id\":2,\"op\":\"resume\"}");
	board_ended(b, b->last_job, E_CHILD, evil);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT, .text = evil});
	board_event(b, (struct honed_event){.kind = HE_CONF, .rc = E_USAGE, .text = evil});
	b->file[0].refused = evil;
	board_event(b, (struct honed_event){.kind = HE_MODELS, .nmodels = 1, .model = b->file});
	board_run(b, 120 * NS_PER_S);
	CHECK(logged >= 4);
	CHECK(!strange);
	json_t *s = json_loads(board_status(b), JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_is_object(s));
	json_decref(s);
	board_free(b);
}

TEST_MAIN
