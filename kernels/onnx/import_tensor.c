/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto to tensor: raw bytes, typed fields or external data; every size is checked against the
 * dimensions. */
#include "kernels/onnx/onnx_pb.h"
#include <inttypes.h>
#include <string.h>

enum field { IN_FLOAT, IN_INT32, IN_INT64, IN_DOUBLE, IN_UINT64, NOWHERE };

static const struct {
	char name[15];
	uint8_t dtype; /* enum dtype */
	uint8_t field; /* enum field: the one that holds typed data of this type */
} types[] = {
    {"undefined", DT_NONE, NOWHERE},      {"float", DT_F32, IN_FLOAT},
    {"uint8", DT_U8, IN_INT32},           {"int8", DT_I8, IN_INT32},
    {"uint16", DT_U16, IN_INT32},         {"int16", DT_I16, IN_INT32},
    {"int32", DT_I32, IN_INT32},          {"int64", DT_I64, IN_INT64},
    {"string", DT_NONE, NOWHERE},         {"bool", DT_BOOL, IN_INT32},
    {"float16", DT_F16, IN_INT32},        {"double", DT_F64, IN_DOUBLE},
    {"uint32", DT_U32, IN_UINT64},        {"uint64", DT_U64, IN_UINT64},
    {"complex64", DT_NONE, NOWHERE},      {"complex128", DT_NONE, NOWHERE},
    {"bfloat16", DT_BF16, IN_INT32},      {"float8e4m3fn", DT_NONE, NOWHERE},
    {"float8e4m3fnuz", DT_NONE, NOWHERE}, {"float8e5m2", DT_NONE, NOWHERE},
    {"float8e5m2fnuz", DT_NONE, NOWHERE}, {"uint4", DT_NONE, NOWHERE},
    {"int4", DT_NONE, NOWHERE},           {"float4e2m1", DT_NONE, NOWHERE},
};
enum { TYPES = sizeof types / sizeof types[0] };

enum dtype pb_dtype(int32_t data_type)
{
	return data_type >= 0 && data_type < TYPES ? types[data_type].dtype : DT_NONE;
}

int32_t pb_data_type(enum dtype t)
{
	for (int32_t i = 1; i < TYPES; i++)
		if (types[i].dtype == t)
			return i;
	return 0;
}

const char *pb_type_name(int32_t data_type)
{
	return data_type >= 0 && data_type < TYPES ? types[data_type].name : "unknown";
}

static void *arena_get(void *a, size_t n)
{
	return arena_try(a, n ? n : 1, 1);
}

static void keep(void *a, void *p)
{
	(void)a;
	(void)p;
}

ProtobufCAllocator pb_allocator(struct arena *a)
{
	return (ProtobufCAllocator){arena_get, keep, a};
}

/* The descriptors have no names (optimize_for in onnx.proto). */
static const char *message_name(const ProtobufCMessageDescriptor *d)
{
	return d == &onnx__tensor_proto__descriptor  ? "ONNX tensor"
	       : d == &onnx__graph_proto__descriptor ? "ONNX graph"
						     : "ONNX model";
}

int pb_unpack(struct arena *a, const ProtobufCMessageDescriptor *d, const void *p, size_t n, void *out)
{
	ProtobufCAllocator alloc = pb_allocator(a);
	(void)fail(E_OK, "%s", "");
	void *m = protobuf_c_message_unpack(d, &alloc, n, p);
	if (!m && *err_text()) /* the error is the allocator's */
		return fail_in(E_NOMEM, "unpacking %zu bytes of %s", n, message_name(d));
	if (!m)
		return fail(E_CORRUPT, "%zu bytes are not a valid %s: the file is damaged, or not ONNX", n,
			    message_name(d));
	memcpy(out, &m, sizeof m);
	return E_OK;
}

/* The typed field of a message, as unpacked. */
static void typed(const Onnx__TensorProto *p, enum field f, const void **data, size_t *n, size_t *elem_bytes)
{
	const struct {
		const void *data;
		size_t n, bytes;
	} fields[] = {
	    [IN_FLOAT] = {p->float_data, p->n_float_data, sizeof(float)},
	    [IN_INT32] = {p->int32_data, p->n_int32_data, sizeof(int32_t)},
	    [IN_INT64] = {p->int64_data, p->n_int64_data, sizeof(int64_t)},
	    [IN_DOUBLE] = {p->double_data, p->n_double_data, sizeof(double)},
	    [IN_UINT64] = {p->uint64_data, p->n_uint64_data, sizeof(uint64_t)},
	    [NOWHERE] = {NULL, 0, 1},
	};
	*data = fields[f].data;
	*n = fields[f].n;
	*elem_bytes = fields[f].bytes;
}

/* Typed fields hold narrow integers (and f16 bits) in wider ones: copies the low bytes, little endian. */
static int narrow(struct arena *a, const void *data, size_t n, size_t from, struct tensor *out)
{
	size_t to = dtype_bytes(out->dtype);
	char *d = arena_try(a, n ? n : 1, to);
	if (!d)
		return E_NOMEM;
	for (size_t i = 0; i < n; i++)
		memcpy(d + i * to, (const char *)data + i * from, to);
	out->data = d;
	return E_OK;
}

static int from_typed(struct arena *a, const Onnx__TensorProto *p, struct tensor *out)
{
	const void *data;
	size_t n, bytes;
	typed(p, types[p->data_type].field, &data, &n, &bytes);
	int64_t want = shape_count(&out->shape);
	if (n != (size_t)want)
		return fail(E_CORRUPT,
			    "%zu elements where its dimensions say %" PRId64 ": the file is damaged", n,
			    want);
	if (bytes != dtype_bytes(out->dtype) || !n)
		return narrow(a, data, n, bytes, out);
	memcpy(&out->data, &data, sizeof data);
	return E_OK;
}

static int from_raw(const Onnx__TensorProto *p, struct tensor *out)
{
	size_t want = (size_t)shape_count(&out->shape) * dtype_bytes(out->dtype);
	if (p->raw_data.len != want)
		return fail(E_CORRUPT, "%zu bytes of data where its dimensions say %zu: the file is damaged",
			    p->raw_data.len, want);
	out->data = p->raw_data.data;
	return E_OK;
}

static int from_external(struct arena *a, const Onnx__TensorProto *p, const struct pb_home *home,
			 struct tensor *out)
{
	size_t n = (size_t)shape_count(&out->shape), bytes = dtype_bytes(out->dtype);
	int rc = pb_external(p, home, NULL, n * bytes); /* checks that the data exists before memory is
							 * allocated for it */
	if (rc < 0)
		return rc;
	out->data = arena_try(a, n ? n : 1, bytes);
	return out->data ? pb_external(p, home, out->data, n * bytes) : E_NOMEM;
}

static int widened(struct arena *a, struct tensor *t)
{
	struct tensor wide;
	int rc = tensor_alloc(a, DT_F32, &t->shape, &wide);
	if (rc < 0)
		return rc;
	for (int64_t i = 0, n = shape_count(&t->shape); i < n; i++)
		((float *)wide.data)[i] = (float)tensor_get(t, i);
	*t = wide;
	return E_OK;
}

int pb_shape(const Onnx__TensorProto *p, struct shape *s)
{
	if (p->n_dims > MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %zu exceeds %d", p->n_dims, MAX_RANK);
	*s = (struct shape){.rank = (int)p->n_dims};
	for (int i = 0; i < s->rank; i++)
		s->d[i] = p->dims[i];
	return shape_check(s, PB_MAX_ELEMS);
}

/* Makes every bool byte 0 or 1. */
static void tidy_bools(struct tensor *t)
{
	uint8_t *b = t->data;
	for (int64_t i = 0, n = shape_count(&t->shape); i < n; i++)
		b[i] = b[i] != 0;
}

int pb_tensor(struct arena *a, const Onnx__TensorProto *p, const struct pb_home *home, bool widen,
	      struct tensor *out)
{
	*out = (struct tensor){.dtype = pb_dtype(p->data_type)};
	if (out->dtype == DT_NONE)
		return fail(E_UNSUPPORTED, "tensor type %s is not supported", pb_type_name(p->data_type));
	int rc = pb_shape(p, &out->shape);
	if (rc < 0)
		return rc;
	if (p->data_location == 1)
		rc = from_external(a, p, home, out);
	else
		rc = p->has_raw_data ? from_raw(p, out) : from_typed(a, p, out);
	if (rc >= 0 && !out->data) /* a tensor without elements needs a pointer too, because NULL means
				    * unknown */
		rc = (out->data = arena_try(a, 1, 16)) ? E_OK : E_NOMEM;
	if (rc < 0)
		return rc;
	if (out->dtype == DT_BOOL)
		tidy_bools(out);
	return widen && (out->dtype == DT_F16 || out->dtype == DT_BF16) ? widened(a, out) : E_OK;
}

void pb_from_tensor(const struct tensor *t, const char *name, int64_t *dims, Onnx__TensorProto *out)
{
	onnx__tensor_proto__init(out);
	for (int i = 0; i < t->shape.rank; i++)
		dims[i] = t->shape.d[i];
	out->n_dims = (size_t)t->shape.rank;
	out->dims = dims;
	out->has_data_type = 1;
	out->data_type = pb_data_type(t->dtype);
	memcpy(&out->name, &name, sizeof name);
	out->has_raw_data = 1;
	out->raw_data.len = (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
	out->raw_data.data = t->data;
}
