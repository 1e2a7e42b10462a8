/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_options.c: compile options. They arrive as a protocol buffer, CompileOptionsProto, of which few fields matter
   here: how many devices the program is for and which, and options that the user gave by name. A message is a list of
   fields, each a key (number << 3 | kind) and a value; unknown fields are skipped. The bytes are treated as
   untrusted. */
#include "pjrt/pjrt.h"

/* ---- The wire form ---- */

typedef struct {
    const char *at, *end;
    bool failed;
} reader;

typedef struct {
    uint32_t number;
    uint64_t value; /* of a number */
    reader bytes;   /* of a text or message */
} field;

enum { WIRE_VARINT = 0, WIRE_8_BYTES = 1, WIRE_BYTES = 2, WIRE_4_BYTES = 5 };

static uint64_t read_varint(reader *r)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        unsigned char byte = (unsigned char)*r->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    r->failed = true;
    return 0;
}

static void skip(reader *r, uint64_t n)
{
    if (n > (uint64_t)(r->end - r->at))
        r->failed = true;
    else
        r->at += n;
}

/* The next field; false at the end or after a mistake. */
static bool next_field(reader *r, field *out)
{
    *out = (field){0};
    if (r->failed || r->at == r->end)
        return false;
    uint64_t key = read_varint(r);
    out->number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case WIRE_VARINT: out->value = read_varint(r); break;
    case WIRE_8_BYTES: skip(r, 8); break;
    case WIRE_4_BYTES: skip(r, 4); break;
    case WIRE_BYTES: {
        uint64_t n = read_varint(r);
        out->bytes.at = r->at;
        skip(r, n);
        out->bytes.end = r->at;
        break;
    }
    default: r->failed = true;
    }
    return !r->failed;
}

/* ---- Options by name ---- */

typedef struct {
    const char *name;
    size_t name_size;
    const char *text; /* NULL: not a text */
    size_t text_size;
    int64_t integer;
    bool is_integer;
} named_option;

static void read_named(reader *r, named_option *out)
{
    field f, v;
    while (next_field(r, &f)) {
        if (f.number == 1) {
            out->name = f.bytes.at;
            out->name_size = (size_t)(f.bytes.end - f.bytes.at);
        } else if (f.number == 2) {
            while (next_field(&f.bytes, &v)) {
                if (v.number == 1) {
                    out->text = v.bytes.at;
                    out->text_size = (size_t)(v.bytes.end - v.bytes.at);
                } else if (v.number == 3) {
                    out->integer = (int64_t)v.value;
                    out->is_integer = true;
                }
            }
            r->failed |= f.bytes.failed;
        }
    }
}

static bool is_called(const named_option *n, const char *name)
{
    return n->name_size == strlen(name) && memcmp(n->name, name, n->name_size) == 0;
}

/* Flags of XLA that programs set, and that are booleans or numbers there. */
static const char *const booleans[] = {"xla_allow_excess_precision",
                                       "xla_cpu_enable_fast_math",
                                       "xla_cpu_enable_fast_min_max",
                                       "xla_cpu_fast_math_honor_division",
                                       "xla_cpu_fast_math_honor_functions",
                                       "xla_cpu_fast_math_honor_infs",
                                       "xla_cpu_fast_math_honor_nans",
                                       "xla_cpu_multi_thread_eigen",
                                       "xla_cpu_use_thunk_runtime",
                                       "xla_detailed_logging",
                                       "xla_dump_hlo_as_dot",
                                       "xla_dump_hlo_as_html",
                                       "xla_dump_hlo_as_proto",
                                       "xla_dump_hlo_as_text",
                                       "xla_dump_hlo_as_url",
                                       "xla_dump_hlo_snapshots",
                                       "xla_embed_ir_in_executable",
                                       "xla_gpu_deterministic_ops",
                                       "xla_gpu_enable_fast_min_max",
                                       "xla_gpu_enable_latency_hiding_scheduler",
                                       "xla_gpu_enable_triton_gemm",
                                       "xla_gpu_exclude_nondeterministic_ops",
                                       "xla_llvm_disable_expensive_passes",
                                       "xla_unsupported_crash_on_hlo_pass_fix_max_iterations",
                                       NULL};
static const char *const numbers[] = {"xla_backend_optimization_level", "xla_cpu_parallel_codegen_split_count",
                                      "xla_force_host_platform_device_count", "xla_gpu_autotune_level", NULL};

static bool is_one_of(const named_option *n, const char *const *names)
{
    for (; *names; names++)
        if (is_called(n, *names))
            return true;
    return false;
}

static bool is_word(const named_option *n, const char *word)
{
    return n->text_size == strlen(word) && memcmp(n->text, word, n->text_size) == 0;
}

/* Flags of another compiler have no effect, but a value of the wrong type is the mistake that it is there. */
static pjrt_error *check_flag(const named_option *n)
{
    bool is_boolean = is_one_of(n, booleans), is_number = is_one_of(n, numbers), is_digits = n->text_size > 0;
    for (size_t i = 0; n->text && i < n->text_size; i++)
        is_digits &= (n->text[i] >= '0' && n->text[i] <= '9') || (i == 0 && n->text[i] == '-' && n->text_size > 1);
    if (!n->text || (!is_boolean && !is_number))
        return NULL;
    if (is_boolean && (is_word(n, "True") || is_word(n, "False") || is_word(n, "true") || is_word(n, "false")))
        return NULL;
    if (is_number && is_digits)
        return NULL;
    return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "While setting option %.*s, '%.*s' is not a valid %s value.",
                          (int)n->name_size, n->name, n->text_size < 60 ? (int)n->text_size : 60, n->text,
                          is_boolean ? "bool" : "int64");
}

/* Anything else that is unknown is an error, in the words that JAX's users know. */
static pjrt_error *set_named(const named_option *n, pjrt_options *out)
{
    int shown = n->name_size < 100 ? (int)n->name_size : 100;
    if (is_called(n, "fluxion_threads")) {
        if (!n->is_integer || n->integer < 0 || n->integer > 1024)
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "fluxion_threads must be between 0 and 1024");
        out->threads = (int32_t)n->integer;
        return NULL;
    }
    if (is_called(n, "fluxion_mode")) {
        if (!n->text || !flxi_pjrt_parse_mode(n->text, n->text_size, &out->mode))
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "fluxion_mode must be auto, interpret or compile");
        return NULL;
    }
    if (n->name_size > 4 && memcmp(n->name, "xla_", 4) == 0)
        return check_flag(n);
    return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "No such compile option: '%.*s'", shown, n->name ? n->name : "");
}

/* ---- Fields ---- */

/* For each partition the device of its first replica: there is one, which check_devices() sees to. */
static void read_assignment(reader r, pjrt_options *out)
{
    field f, v;
    out->assignment = r.at;
    out->assignment_size = (size_t)(r.end - r.at);
    while (next_field(&r, &f)) {
        bool has_device = f.number != 3;
        while (!has_device && next_field(&f.bytes, &v)) {
            if (v.number == 1 && v.bytes.at)
                v.value = v.bytes.at < v.bytes.end ? read_varint(&v.bytes) : 0;
            has_device = v.number == 1;
            if (has_device && out->num_devices < PJRT_MAX_DEVICES)
                out->devices[out->num_devices++] = (int64_t)v.value;
        }
    }
}

static void read_build_options(reader r, pjrt_options *out)
{
    field f;
    while (next_field(&r, &f)) {
        if (f.number == 4)
            out->num_replicas = (int64_t)f.value;
        else if (f.number == 5)
            out->num_partitions = (int64_t)f.value;
        else if (f.number == 9)
            read_assignment(f.bytes, out);
    }
}

static pjrt_error *check_devices(const pjrt_client *c, pjrt_options *o)
{
    if (o->num_replicas < 1)
        o->num_replicas = 1;
    if (o->num_partitions < 1)
        o->num_partitions = 1;
    if (o->num_replicas > 1)
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED,
                              "the program is for %lld replicas; programs for several devices must have partitions",
                              (long long)o->num_replicas);
    if (o->num_partitions > (int64_t)c->num_devices)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the program is for %lld devices: there are %zu",
                              (long long)o->num_partitions, c->num_devices);
    while (o->num_devices < (size_t)o->num_partitions) {
        o->devices[o->num_devices] = (int64_t)o->num_devices;
        o->num_devices++;
    }
    for (size_t i = 0; i < o->num_devices; i++)
        if (o->devices[i] < 0 || o->devices[i] >= (int64_t)c->num_devices)
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the program is for device %lld: there are %zu",
                                  (long long)o->devices[i], c->num_devices);
    return NULL;
}

pjrt_error *flxi_pjrt_read_options(const pjrt_client *c, const char *bytes, size_t size, pjrt_options *out)
{
    reader r = {.at = bytes, .end = bytes + size};
    field f;
    pjrt_error *e = NULL;
    *out = (pjrt_options){.mode = c->mode, .threads = c->threads};
    while (!e && size && next_field(&r, &f)) {
        named_option named = {0};
        if (f.number == 3) {
            read_build_options(f.bytes, out);
        } else if (f.number == 4) {
            out->is_portable = f.value != 0;
        } else if (f.number == 7) {
            read_named(&f.bytes, &named);
            e = set_named(&named, out);
        }
    }
    if (!e && r.failed)
        e = flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the compile options are malformed");
    return e ? e : check_devices(c, out);
}
