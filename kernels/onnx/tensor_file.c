/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: NumPy's .npy (format 1.0 to 3.0, little endian, C order) and ONNX TensorProto .pb. */
#include "kernels/onnx/onnx_pb.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	char descr[4];
	uint8_t dtype; /* enum dtype */
} npy_types[] = {
    {"<f4", DT_F32}, {"<f8", DT_F64}, {"<f2", DT_F16},  {"|i1", DT_I8},  {"|u1", DT_U8},  {"<i2", DT_I16},
    {"<i4", DT_I32}, {"<i8", DT_I64}, {"|b1", DT_BOOL}, {"<u2", DT_U16}, {"<u4", DT_U32}, {"<u8", DT_U64},
};
enum { NPY_TYPES = sizeof npy_types / sizeof npy_types[0] };

/* The text after `key` in the header's Python dictionary; NULL: absent. */
static const char *npy_field(const char *header, const char *key)
{
	const char *p = strstr(header, key);
	p = p ? strchr(p, ':') : NULL;
	return p ? p + 1 + strspn(p + 1, " ") : NULL;
}

static int npy_dtype(const char *header, enum dtype *out)
{
	const char *p = npy_field(header, "'descr'");
	for (int i = 0; p && *p == '\'' && i < NPY_TYPES; i++)
		if (!strncmp(p + 1, npy_types[i].descr, 3) && p[4] == '\'') {
			*out = npy_types[i].dtype;
			return E_OK;
		}
	const char *type = p && *p == '\'' ? p + 1 : "(none)"; /* of a record it is a list */
	return fail(E_UNSUPPORTED, "array type %.*s%s is not supported: save it as float32, int64, ...",
		    (int)strnlen(type, strcspn(type, "'") < 16 ? strcspn(type, "'") : 16), type,
		    *type == '>' ? " (big-endian)" : "");
}

static int npy_shape(const char *header, struct shape *s)
{
	const char *p = npy_field(header, "'shape'");
	*s = (struct shape){0};
	if (!p || *p++ != '(')
		return fail(E_CORRUPT, "no shape in the header");
	while (*p != ')') {
		char *end;
		long long v = strtoll(p, &end, 10);
		if (end == p || v < 0)
			return fail(E_CORRUPT, "the shape in the header is damaged");
		if (s->rank == MAX_RANK)
			return fail(E_UNSUPPORTED, "rank over %d", MAX_RANK);
		s->d[s->rank++] = v;
		p = end + strspn(end, ", ");
	}
	return shape_check(s, PB_MAX_ELEMS);
}

/* Copies elements whose first dimension is the innermost one, as in Fortran, in the order of C. */
static void from_fortran(struct tensor *out, const uint8_t *from)
{
	size_t each = dtype_bytes(out->dtype);
	int64_t at[MAX_RANK] = {0}, stride[MAX_RANK], n = shape_count(&out->shape), of = 0;
	for (int i = 0; i < out->shape.rank; i++)
		stride[i] = i ? stride[i - 1] * out->shape.d[i - 1] : 1;
	for (int64_t k = 0; k < n; k++) {
		memcpy((uint8_t *)out->data + (size_t)k * each, from + (size_t)of * each, each);
		for (int i = out->shape.rank - 1; i >= 0; i--) {
			of += stride[i];
			if (++at[i] < out->shape.d[i])
				break;
			of -= stride[i] * at[i];
			at[i] = 0;
		}
	}
}

static int npy_read(struct arena *a, const struct blob *f, struct tensor *out)
{
	const uint8_t *b = f->p;
	if (f->n < 12 || memcmp(b, "\x93NUMPY", 6) || b[6] < 1 || b[6] > 3)
		return fail(E_CORRUPT, "not a .npy file of version 1 to 3");
	size_t start = b[6] == 1 ? 10 : 12;
	size_t n = b[8] | (size_t)b[9] << 8;
	if (b[6] > 1)
		n |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
	if (n > f->n - start || n > 65536)
		return fail(E_CORRUPT, "the header is longer than the file, or than 64 KiB");
	const char *header = arena_strndup(a, (const char *)b + start, n);
	const char *order = npy_field(header, "'fortran_order'");
	enum dtype t = DT_NONE;
	struct shape s;
	int rc = npy_dtype(header, &t);
	if (rc >= 0)
		rc = npy_shape(header, &s);
	if (rc < 0)
		return rc;
	size_t bytes = (size_t)shape_count(&s) * dtype_bytes(t);
	if (f->n - start - n != bytes)
		return fail(E_CORRUPT, "%zu bytes of data where the header says %zu", f->n - start - n,
			    bytes);
	rc = tensor_alloc(a, t, &s, out);
	if (rc >= 0 && order && !strncmp(order, "True", 4))
		from_fortran(out, b + start + n);
	else if (rc >= 0 && bytes)
		memcpy(out->data, b + start + n, bytes);
	return rc;
}

static int npy_put(const struct tensor *t, struct buf *out)
{
	const char *descr = NULL;
	for (int i = 0; i < NPY_TYPES; i++)
		if (npy_types[i].dtype == t->dtype)
			descr = npy_types[i].descr;
	if (!descr)
		return fail(E_UNSUPPORTED, "type %s has no .npy form", dtype_name(t->dtype));
	struct buf h = {0};
	buf_printf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (int i = 0; i < t->shape.rank; i++)
		buf_printf(&h, "%" PRId64 ",%s", t->shape.d[i], i + 1 < t->shape.rank ? " " : "");
	buf_puts(&h, "), }");
	while ((10 + h.n + 1) % 64) /* data begins at a multiple of 64, as in files that NumPy writes */
		buf_puts(&h, " ");
	buf_puts(&h, "\n");
	buf_add(out, "\x93NUMPY\x01\x00", 8);
	buf_u8(out, (uint8_t)h.n);
	buf_u8(out, (uint8_t)(h.n >> 8));
	buf_add(out, buf_str(&h), h.n);
	buf_free(&h);
	return E_OK;
}

/* Data outside the file has to lie below the file's folder. */
static int pb_read(struct arena *a, const char *path, const struct blob *f, struct tensor *out, char *name)
{
	const char *slash = strrchr(path, '/');
	const struct pb_home home = {slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : ".", -1};
	Onnx__TensorProto *p;
	int rc = pb_unpack(a, &onnx__tensor_proto__descriptor, f->p, f->n, &p);
	if (rc < 0)
		return rc;
	if (name)
		snprintf(name, 256, "%.255s", p->name ? p->name : "");
	return pb_tensor(a, p, &home, false, out);
}

static int pb_put(const struct tensor *t, const char *name, struct buf *out)
{
	Onnx__TensorProto p;
	int64_t dims[MAX_RANK];
	pb_from_tensor(t, name ? name : "", dims, &p);
	if (!p.data_type)
		return fail(E_UNSUPPORTED, "type %s has no ONNX form", dtype_name(t->dtype));
	struct arena a = {0};
	size_t n = onnx__tensor_proto__get_packed_size(&p);
	uint8_t *bytes = arena_try(&a, n + 1, 1);
	if (bytes)
		buf_add(out, bytes, onnx__tensor_proto__pack(&p, bytes));
	arena_free(&a);
	return bytes ? E_OK : E_NOMEM;
}

int tensor_read(struct arena *a, const char *path, struct tensor *out, char *name)
{
	bool npy = file_ends_with(path, ".npy");
	if (!npy && !file_ends_with(path, ".pb"))
		return fail(E_USAGE, "%s: a tensor file is a .npy or an ONNX .pb", path);
	if (name)
		name[0] = 0;
	struct arena scratch = {0};
	struct blob f;
	int rc = file_read(&scratch, path, 0, &f);
	if (rc >= 0)
		rc = fail_in(npy ? npy_read(a, &f, out) : pb_read(a, path, &f, out, name), "%s", path);
	arena_free(&scratch);
	return rc;
}

int tensor_write(const char *path, const struct tensor *t, const char *name)
{
	bool npy = file_ends_with(path, ".npy");
	if (!npy && !file_ends_with(path, ".pb"))
		return fail(E_USAGE, "%s: a tensor file is a .npy or an ONNX .pb", path);
	struct buf b = {0};
	int rc = npy ? npy_put(t, &b) : pb_put(t, name, &b);
	if (rc >= 0 && npy)
		buf_add(&b, t->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype));
	if (rc >= 0 && !buf_ok(&b))
		rc = fail(E_NOMEM, "no memory for a file of this tensor");
	rc = fail_in(rc, "%s", path);
	if (rc >= 0)
		rc = file_write(path, buf_str(&b), b.n);
	buf_free(&b);
	return rc;
}
