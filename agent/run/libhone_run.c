/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/libhone.h"
#include "agent/run/inject.h"
#include "platform/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

void turns_open(struct turns *t)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->moved, NULL);
}

void turns_enter(struct turns *t)
{
	pthread_mutex_lock(&t->lock);
	for (unsigned mine = t->given++; mine != t->now;)
		pthread_cond_wait(&t->moved, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

void turns_leave(struct turns *t)
{
	pthread_mutex_lock(&t->lock);
	t->now++;
	pthread_cond_broadcast(&t->moved);
	pthread_mutex_unlock(&t->lock);
}

void turns_close(struct turns *t)
{
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->moved);
}

static void *own_buffer(const struct hone_model *m, bool output, int index)
{
	return (char *)m->own.p + (output ? m->out_at : m->in_at)[index];
}

/* `run` is held. Returns whether the address is the plan's. */
static bool find_place(struct hone_model *m, bool output, int index, void **out)
{
	void *p = plan_in_place(m->net->plan, output, index);
	*out = p ? p : own_buffer(m, output, index);
	return p != NULL;
}

/* The plan must read an input where its user was told to write it. Outputs may move: users ask for their
 * addresses after the run. */
static int check_places(struct hone_model *m, const struct tensor *in, struct tensor *out)
{
	void *p;
	for (int i = 0; i < m->nin; i++)
		if (m->placed[in + i - m->in] && (find_place(m, false, i, &p), p != in[i].data))
			return fail(
			    E_USAGE,
			    "the address of input '%s' is no longer valid: call hone_input_in_place again",
			    m->in_info[i].name);
	for (int i = 0; i < m->nout; i++)
		if (m->placed[out + i - m->in])
			(void)find_place(m, true, i, &out[i].data);
	return E_OK;
}

/* in, out: filled under `now`, owned by the run. */
static int run_tensors(struct hone_model *m, const struct tensor *in, struct tensor *out,
		       const atomic_bool *stop)
{
	struct plan *p = m->net->plan; /* nobody replaces it while `run` is held */
	int rc = check_places(m, in, out);
	if (rc < 0)
		return rc;
	plan_stop_on(p, stop);
	if (m->h->pool)
		turns_enter(&m->h->pool_turns);
	rc = plan_run(p, in, out);
	if (rc ==
	    E_CORRUPT) /* the model was checked when it was loaded, so the values of its inputs are wrong */
		rc = E_USAGE;
	if (m->h->pool)
		turns_leave(&m->h->pool_turns);
	if (rc >= 0 && m->inject)
		rc = m->injector->run(m->inject, out);
	return rc;
}

/* Copies the tensors that are bound now. */
static void snap(struct hone_model *m, struct tensor *in, struct tensor *out)
{
	pthread_mutex_lock(&m->now);
	memcpy(in, m->in, sizeof *in * (size_t)m->nin);
	memcpy(out, m->out, sizeof *out * (size_t)m->nout);
	memcpy(m->placed + (in - m->in), m->placed, sizeof *m->placed * (size_t)m->nin);
	memcpy(m->placed + (out - m->in), m->placed + (m->out - m->in), sizeof *m->placed * (size_t)m->nout);
	pthread_mutex_unlock(&m->now);
}

/* inputs, outputs: of hone_run_on; NULL: those that are bound. */
static int run_now(struct hone_model *m, const void *const *inputs, void *const *outputs)
{
	turns_enter(&m->run);
	snap(m, m->run_in, m->run_out);
	for (int i = 0; i < m->nin && inputs; i++) {
		memcpy(&m->run_in[i].data, &inputs[i], sizeof(void *)); /* a run does not write there */
		m->placed[m->run_in + i - m->in] = false;
	}
	for (int i = 0; i < m->nout && outputs; i++) {
		m->run_out[i].data = outputs[i];
		m->placed[m->run_out + i - m->in] = false;
	}
	int rc = run_tensors(m, m->run_in, m->run_out, NULL);
	turns_leave(&m->run);
	return rc;
}

int hone_run(struct hone_model *m)
{
	int rc = run_now(m, NULL, NULL);
	return rc == E_IO && model_leaves_device(m) ? run_now(m, NULL, NULL) : rc;
}

static bool misaligned(const void *p, int dtype)
{
	return (uintptr_t)p % hone_dtype_bytes(dtype) != 0;
}

static int check_buffer(const struct hone_tensor *t, const void *p)
{
	if (!p)
		return fail(E_USAGE, "the buffer of '%s' is NULL", t->name);
	if (misaligned(p, t->dtype))
		return fail(E_USAGE, "the buffer of '%s' is not aligned to its elements, %zu bytes each",
			    t->name, hone_dtype_bytes(t->dtype));
	return E_OK;
}

int hone_run_on(struct hone_model *m, const void *const *inputs, void *const *outputs)
{
	int rc = E_OK;
	for (int i = 0; i < m->nin && rc >= 0; i++)
		rc = check_buffer(&m->in_info[i], inputs ? inputs[i] : NULL);
	for (int i = 0; i < m->nout && rc >= 0; i++)
		rc = check_buffer(&m->out_info[i], outputs ? outputs[i] : NULL);
	if (rc < 0)
		return rc;
	rc = run_now(m, inputs, outputs);
	return rc == E_IO && model_leaves_device(m) ? run_now(m, inputs, outputs) : rc;
}

static int check_index(const struct hone_model *m, bool output, int index)
{
	int n = output ? m->nout : m->nin;
	if (index < 0 || index >= n)
		return fail(E_USAGE, "no %s %d: the model has %d", output ? "output" : "input", index, n);
	return E_OK;
}

static void set_bound(struct hone_model *m, bool output, int index, const void *data, bool placed)
{
	struct tensor *to = output ? &m->out[index] : &m->in[index];
	pthread_mutex_lock(&m->now);
	memcpy(&to->data, &data, sizeof to->data);
	m->placed[to - m->in] = placed;
	pthread_mutex_unlock(&m->now);
}

static int bind(struct hone_model *m, bool output, int index, const void *data, size_t bytes)
{
	if (check_index(m, output, index) < 0)
		return E_USAGE;
	const struct hone_tensor *t = output ? &m->out_info[index] : &m->in_info[index];
	if (data && bytes != t->bytes)
		return fail(E_USAGE, "'%s' needs %zu bytes, not %zu", t->name, t->bytes, bytes);
	int rc = data ? check_buffer(t, data) : E_OK;
	if (rc < 0)
		return rc;
	set_bound(m, output, index, data ? data : own_buffer(m, output, index), false);
	return E_OK;
}

static int in_place(struct hone_model *m, bool output, int index, void **data)
{
	int rc = data ? check_index(m, output, index) : fail(E_USAGE, "the address of an address is NULL");
	if (rc < 0)
		return rc;
	turns_enter(&m->run);
	rc = find_place(m, output, index, data);
	set_bound(m, output, index, *data, true);
	turns_leave(&m->run);
	return rc;
}

int hone_input_in_place(struct hone_model *m, int index, void **data)
{
	return in_place(m, false, index, data);
}

int hone_output_in_place(struct hone_model *m, int index, void **data)
{
	return in_place(m, true, index, data);
}

int hone_bind_input(struct hone_model *m, int index, const void *data, size_t bytes)
{
	return bind(m, false, index, data, bytes);
}

int hone_bind_output(struct hone_model *m, int index, void *data, size_t bytes)
{
	return bind(m, true, index, data, bytes);
}

void *hone_input_buffer(struct hone_model *m, int index)
{
	return check_index(m, false, index) < 0 ? NULL : own_buffer(m, false, index);
}

void *hone_output_buffer(struct hone_model *m, int index)
{
	return check_index(m, true, index) < 0 ? NULL : own_buffer(m, true, index);
}

static int run_in_turn(struct hone_model *m)
{
	turns_enter(&m->run);
	int rc = atomic_load(&m->cancel) ? fail(E_STOPPED, "the run was cancelled")
					 : run_tensors(m, m->later_in, m->later_out, &m->cancel);
	plan_stop_on(m->net->plan, NULL);
	turns_leave(&m->run);
	return rc;
}

/* One run that was asked for. `later` is held before and after. */
static void run_later(struct hone_model *m)
{
	pthread_mutex_unlock(&m->later);
	int rc = run_in_turn(m);
	if (rc == E_IO && model_leaves_device(m))
		rc = run_in_turn(m);
	pthread_mutex_lock(&m->later);
	m->status = rc;
	snprintf(m->text, sizeof m->text, "%s", rc < 0 ? err_text() : "");
	if (m->state == LATER_ASKED)
		m->state = LATER_ENDED;
	pthread_cond_broadcast(&m->changed);
}

static void *later_thread(void *arg)
{
	struct hone_model *m = arg;
	pthread_mutex_lock(&m->later);
	while (m->state != LATER_CLOSING) {
		if (m->state == LATER_ASKED)
			run_later(m);
		else
			pthread_cond_wait(&m->changed, &m->later);
	}
	pthread_mutex_unlock(&m->later);
	return NULL;
}

/* Starts the thread with all signals blocked, so that they go to the program's own threads. */
static int start_thread(struct hone_model *m)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int why = pthread_create(&m->thread, NULL, later_thread, m);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	m->started = why == 0;
	return why ? fail(E_NOMEM, "hone_run_async: cannot start a thread: %s", strerror(why)) : E_OK;
}

int hone_run_async(struct hone_model *m)
{
	int rc = E_OK;
	pthread_mutex_lock(&m->later);
	if (m->state != LATER_IDLE)
		rc = fail(E_BUSY, "hone_run_async: the last run has not been waited for: call hone_wait");
	else if (!m->started)
		rc = start_thread(m);
	if (rc >= 0) {
		snap(m, m->later_in, m->later_out);
		atomic_store(&m->cancel, false);
		m->state = LATER_ASKED;
		pthread_cond_broadcast(&m->changed);
	}
	pthread_mutex_unlock(&m->later);
	return rc;
}

int hone_poll(struct hone_model *m)
{
	pthread_mutex_lock(&m->later);
	int ended = m->state != LATER_ASKED;
	pthread_mutex_unlock(&m->later);
	return ended;
}

int hone_wait(struct hone_model *m, int timeout_ms)
{
	int64_t until_ns = clock_now(&clock_real) + timeout_ms * NS_PER_MS;
	const struct timespec until = {until_ns / NS_PER_S, until_ns % NS_PER_S};
	int rc = E_OK, why = 0;
	pthread_mutex_lock(&m->later);
	while (m->state == LATER_ASKED && why != ETIMEDOUT)
		why = timeout_ms < 0 ? pthread_cond_wait(&m->changed, &m->later)
				     : pthread_cond_timedwait(&m->changed, &m->later, &until);
	if (m->state == LATER_IDLE) {
		rc = fail(E_USAGE, "hone_wait: no run was started: call hone_run_async first");
	} else if (m->state == LATER_ASKED) {
		rc = fail(E_TIMEOUT, "hone_wait: the run has not ended after %d ms: wait again", timeout_ms);
	} else {
		m->state = LATER_IDLE;
		rc = m->status < 0 ? fail(m->status, "%s", m->text) : E_OK;
	}
	pthread_mutex_unlock(&m->later);
	return rc;
}

void hone_cancel(struct hone_model *m)
{
	atomic_store(&m->cancel, true);
}

void later_close(struct hone_model *m)
{
	if (!m->started)
		return;
	hone_cancel(m);
	pthread_mutex_lock(&m->later);
	m->state = LATER_CLOSING;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->later);
	pthread_join(m->thread, NULL);
	m->started = false;
}
