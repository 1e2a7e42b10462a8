/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_abi.h: the binary interface between JAX and a plugin: PJRT, version 0.112, as far as it is needed.

   A plugin exports one function, GetPjrtApi, which returns a table of functions. Each takes a pointer to a struct of
   arguments and returns NULL or an error. A struct begins with its size and a chain of extensions, and only ever grows
   at its end. The size that a caller passes is the offset of the last member plus its size, not sizeof: whether a
   member is there is decided by its offset (PJRT_HAS). Many calls have arguments of the same shape, which share a
   struct here; handles are pointers to objects of pjrt.h. Texts are a pointer and a length. */
#ifndef FLXI_PJRT_ABI_H
#define FLXI_PJRT_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_memory pjrt_memory;
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_executable pjrt_executable;

#define PJRT_HAS(args, member) ((args)->struct_size >= offsetof(__typeof__(*(args)), member) + sizeof((args)->member))

/* ---- The table ---- */

enum { PJRT_MAJOR = 0, PJRT_MINOR = 112, PJRT_SPARE = 64 };

enum {
#define SLOT(name, function) PJRT_##name,
#define LACK(name) PJRT_##name,
#include "pjrt/pjrt_slots.def"
#undef SLOT
#undef LACK
    PJRT_NUM_SLOTS
};
static_assert(PJRT_NUM_SLOTS == 138, "slots of version 0.112");

typedef pjrt_error *(*pjrt_call)(void *args);

typedef struct {
    size_t struct_size;
    void *extension_start;
    struct {
        size_t struct_size;
        void *extension_start;
        int32_t major, minor;
    } version;
    pjrt_call slots[PJRT_NUM_SLOTS + PJRT_SPARE]; /* callers look for later calls without looking at the size first */
} pjrt_api;
static_assert(offsetof(pjrt_api, slots) == 40, "layout");

/* ---- Enumerations ---- */

typedef enum {
    PJRT_OK = 0,
    PJRT_CANCELLED = 1,
    PJRT_INVALID_ARGUMENT = 3,
    PJRT_DEADLINE_EXCEEDED = 4,
    PJRT_RESOURCE_EXHAUSTED = 8,
    PJRT_FAILED_PRECONDITION = 9,
    PJRT_UNIMPLEMENTED = 12,
    PJRT_INTERNAL = 13
} pjrt_code;

typedef enum {
    PJRT_INVALID,
    PJRT_PRED,
    PJRT_S8,
    PJRT_S16,
    PJRT_S32,
    PJRT_S64,
    PJRT_U8,
    PJRT_U16,
    PJRT_U32,
    PJRT_U64,
    PJRT_F16,
    PJRT_F32,
    PJRT_F64,
    PJRT_BF16,
    PJRT_C64,
    PJRT_C128,
    PJRT_F8E5M2,
    PJRT_F8E4M3FN,
    PJRT_F8E4M3B11FNUZ,
    PJRT_F8E5M2FNUZ,
    PJRT_F8E4M3FNUZ,
    PJRT_S4,
    PJRT_U4,
    PJRT_TOKEN,
    PJRT_S2,
    PJRT_U2,
    PJRT_F8E4M3,
    PJRT_F8E3M4,
    PJRT_F8E8M0FNU,
    PJRT_F4E2M1FN,
    PJRT_NUM_TYPES
} pjrt_type;

enum { /* how long memory of the host may be used */
       PJRT_HOST_DURING_CALL = 0,
       PJRT_HOST_UNTIL_COPIED = 1,
       PJRT_HOST_ZERO_COPY = 2,
       PJRT_HOST_MUTABLE_ZERO_COPY = 3
};

enum { PJRT_VALUE_STRING, PJRT_VALUE_INT, PJRT_VALUE_INTS, PJRT_VALUE_FLOAT, PJRT_VALUE_BOOL };

/* ---- Structs that calls share ---- */

#define PJRT_HEAD       \
    size_t struct_size; \
    void *extension_start

typedef struct {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    int32_t type;
    union {
        const char *string;
        int64_t integer;
        const int64_t *integers;
        float real;
        bool flag;
    };
    size_t size;
} pjrt_named_value;
static_assert(sizeof(pjrt_named_value) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} pjrt_program;
static_assert(sizeof(pjrt_program) == 48, "layout");

typedef struct { /* of an array in memory: PJRT_LAYOUT_… says which member counts */
    PJRT_HEAD;
    union {
        struct {
            PJRT_HEAD;
            const int64_t *minor_to_major;
            size_t num_axes;
            const int64_t *tile_dims;
            const size_t *tile_dim_sizes;
            size_t num_tiles;
        } tiled;
        struct {
            PJRT_HEAD;
            const int64_t *byte_strides;
            size_t num_axes;
        } strided;
    };
    int32_t type;
} pjrt_layout;
static_assert(sizeof(pjrt_layout) == 80, "layout");
enum { PJRT_LAYOUT_TILED, PJRT_LAYOUT_STRIDES };

typedef struct {
    PJRT_HEAD;
} pjrt_no_args;

typedef struct {
    PJRT_HEAD;
    void *handle;
} pjrt_handle_args;

typedef struct {
    PJRT_HEAD;
    void *handle;
    void *result;
} pjrt_object_args;

typedef struct {
    PJRT_HEAD;
    const void *handle;
    const char *text;
    size_t size;
} pjrt_text_args;
static_assert(sizeof(pjrt_text_args) == 40, "layout");

typedef struct {
    PJRT_HEAD;
    void *handle;
    int32_t value;
} pjrt_int_args;

typedef struct {
    PJRT_HEAD;
    void *handle;
    bool value;
} pjrt_bool_args;

typedef struct {
    PJRT_HEAD;
    void *handle;
    size_t value; /* also int64_t and uint64_t */
} pjrt_size_args;
static_assert(sizeof(pjrt_size_args) == 32, "layout");

typedef struct {
    PJRT_HEAD;
    void *handle;
    void *list; /* of pointers, numbers or structs */
    size_t count;
} pjrt_list_args;

typedef struct { /* like pjrt_list_args, in the order of the calls that return attributes */
    PJRT_HEAD;
    void *handle;
    size_t count;
    const pjrt_named_value *list;
} pjrt_attributes_args;

typedef struct { /* bytes with an owner, which the caller frees by the function */
    PJRT_HEAD;
    void *handle;
    const char *bytes;
    size_t size;
    void *owner;
    void (*free_owner)(void *owner);
} pjrt_bytes_args;
static_assert(sizeof(pjrt_bytes_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    void *handle;
    size_t count;
    const char *const *texts;
    const size_t *sizes;
} pjrt_texts_args;
static_assert(sizeof(pjrt_texts_args) == 48, "layout");

/* ---- Arguments of single calls ---- */

typedef struct {
    PJRT_HEAD;
    const pjrt_named_value *attributes;
    size_t num_attributes;
} pjrt_plugin_attributes_args;

typedef void (*pjrt_on_ready)(pjrt_error *error, void *user);

typedef struct {
    PJRT_HEAD;
    pjrt_event *event;
    pjrt_on_ready callback;
    void *user;
} pjrt_on_ready_args;

typedef struct {
    PJRT_HEAD;
    pjrt_event *event; /* receives it */
} pjrt_event_create_args;

typedef struct {
    PJRT_HEAD;
    pjrt_event *event;
    int32_t code;
    const char *message;
    size_t message_size;
} pjrt_event_set_args;
static_assert(sizeof(pjrt_event_set_args) == 48, "layout");

typedef struct {
    PJRT_HEAD;
    const pjrt_named_value *options;
    size_t num_options;
    void *key_values[4]; /* functions of distributed runs, and what they are given */
    pjrt_client *client; /* receives it */
} pjrt_client_create_args;
static_assert(offsetof(pjrt_client_create_args, client) == 64, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    int32_t id;
    pjrt_device *device; /* receives it */
} pjrt_lookup_args;
static_assert(sizeof(pjrt_lookup_args) == 40, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    const pjrt_program *program;
    const char *options;
    size_t options_size;
    pjrt_executable *executable; /* receives it */
} pjrt_compile_args;
static_assert(sizeof(pjrt_compile_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    int32_t num_replicas, num_partitions;
    size_t size;
    int32_t *assignment;
} pjrt_assignment_args;
static_assert(sizeof(pjrt_assignment_args) == 48, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    const void *data;
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    const int64_t *byte_strides;
    size_t num_byte_strides;
    int32_t semantics;
    pjrt_device *device;
    pjrt_memory *memory;
    const pjrt_layout *device_layout;
    pjrt_event *done_with_host_buffer; /* receives it */
    pjrt_buffer *buffer;               /* receives it */
} pjrt_from_host_args;
static_assert(sizeof(pjrt_from_host_args) == 120, "layout");

typedef struct {
    int64_t value;
    bool is_set;
} pjrt_statistic;

typedef struct {
    PJRT_HEAD;
    pjrt_device *device;
    int64_t bytes_in_use;
    pjrt_statistic peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved, peak_bytes_reserved,
        bytes_reservable_limit, largest_free_block_bytes, pool_bytes, peak_pool_bytes;
} pjrt_memory_stats_args;
static_assert(sizeof(pjrt_memory_stats_args) == 192, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_device *device;
    const pjrt_named_value *list;
    size_t count;
    void *owner;
    void (*free_owner)(void *owner);
} pjrt_device_attributes_args;
static_assert(sizeof(pjrt_device_attributes_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    void *send_callbacks, *recv_callbacks;
    size_t num_send, num_recv;
    int32_t launch_id;
    const int64_t *kept_inputs; /* not to be donated */
    size_t num_kept_inputs;
} pjrt_execute_options;
static_assert(offsetof(pjrt_execute_options, num_kept_inputs) == 64, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_executable *executable;
    pjrt_execute_options *options;
    pjrt_buffer *const *const *arguments; /* by device, by position */
    size_t num_devices;
    size_t num_args;
    pjrt_buffer **const *outputs;
    pjrt_event **complete_events; /* NULL, or one for each device to receive */
    pjrt_device *execute_device;
} pjrt_execute_args;
static_assert(sizeof(pjrt_execute_args) == 80, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    const char *bytes;
    size_t size;
    pjrt_executable *executable; /* receives it */
    const char *options;         /* NULL: those that were serialised */
    size_t options_size;
} pjrt_deserialize_args;

typedef struct {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    pjrt_layout layout; /* is filled */
} pjrt_buffer_layout_args;
static_assert(sizeof(pjrt_buffer_layout_args) == 104, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    void *target;      /* a device or a memory */
    pjrt_buffer *copy; /* receives it */
} pjrt_copy_args;

typedef struct {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    const pjrt_layout *host_layout;
    void *data;        /* NULL: the size is asked for */
    size_t size;       /* receives it when data is NULL */
    pjrt_event *event; /* receives it */
} pjrt_to_host_args;
static_assert(sizeof(pjrt_to_host_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    void *data;
    int64_t offset, size;
    pjrt_event *event; /* receives it */
} pjrt_raw_copy_args;
static_assert(sizeof(pjrt_raw_copy_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    void *data;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    const pjrt_layout *layout;
    pjrt_device *device;
    void (*on_delete)(void *data, void *user);
    void *user;
    intptr_t stream;
    pjrt_buffer *buffer; /* receives it */
    pjrt_memory *memory;
} pjrt_view_args;
static_assert(sizeof(pjrt_view_args) == 112, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_client *client;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    const pjrt_layout *layout;
    pjrt_device *device;
    pjrt_memory *memory;
    pjrt_buffer *buffer; /* receives it */
} pjrt_uninitialised_args;
static_assert(sizeof(pjrt_uninitialised_args) == 80, "layout");

typedef struct {
    PJRT_HEAD;
    void *topology;
    const char *bytes;
    size_t size;
    void *owner;
    void (*free_owner)(void *owner);
} pjrt_topology_bytes_args;

typedef struct {
    PJRT_HEAD;
    pjrt_executable *executable;
    size_t num_outputs;
    const int64_t *dims; /* of all outputs, one after the other */
    const size_t *ranks;
} pjrt_output_dims_args;

typedef struct {
    PJRT_HEAD;
    pjrt_executable *executable;
    int64_t code_bytes, argument_bytes, output_bytes, alias_bytes, temp_bytes;
    int64_t host_bytes[5]; /* the same of other memories */
    int64_t peak_bytes, total_bytes, total_allocation_bytes, indefinite_allocations, peak_unpadded_bytes;
} pjrt_compiled_memory_args;
static_assert(sizeof(pjrt_compiled_memory_args) == 144, "layout");

typedef struct {
    int32_t replica, partition;
} pjrt_logical_id;

typedef struct {
    PJRT_HEAD;
    pjrt_executable *executable;
    size_t count;
    const char *const *protos; /* serialised OpSharding; NULL: one device */
    const size_t *sizes;
} pjrt_sharding_args;
static_assert(sizeof(pjrt_sharding_args) == 48, "layout");

/* ---- Layouts ---- */

typedef struct pjrt_layout_text pjrt_layout_text; /* a layout, owned by the plugin */

typedef struct {
    PJRT_HEAD;
    const pjrt_layout_text *layout;
    const char *bytes; /* receives them, with their owner */
    size_t size;
    void *owner;
    void (*free_owner)(void *owner);
} pjrt_layout_bytes_args;
static_assert(sizeof(pjrt_layout_bytes_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    void *handle; /* client or topology */
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    pjrt_layout_text *layout; /* receives it */
} pjrt_default_layout_args;
static_assert(sizeof(pjrt_default_layout_args) == 56, "layout");

typedef struct {
    PJRT_HEAD;
    pjrt_executable *executable;
    size_t count;
    pjrt_layout_text **layouts; /* receives them */
} pjrt_layouts_args;
static_assert(sizeof(pjrt_layouts_args) == 40, "layout");

/* ---- Extensions: what a chain of them begins with is their head ---- */

#define PJRT_EXTENSION_HEAD \
    size_t struct_size;     \
    int32_t type;           \
    void *next

enum { PJRT_EXTENSION_LAYOUTS = 4, PJRT_EXTENSION_SHARDINGS = 19 };

typedef struct {
    PJRT_EXTENSION_HEAD;
    pjrt_call parameter_shardings, output_shardings;
} pjrt_shardings_extension;
static_assert(sizeof(pjrt_shardings_extension) == 40, "layout");

typedef struct {
    PJRT_EXTENSION_HEAD;
    pjrt_call destroy, serialize, client_default, buffer, topology_default, outputs, parameters;
} pjrt_layouts_extension;
static_assert(sizeof(pjrt_layouts_extension) == 80, "layout");

/* ---- Tables that errors and memories begin with ---- */

typedef struct {
    size_t struct_size, instance_size;
    void *extension_start;
    void (*destroy)(pjrt_error *e);
    void (*message)(const pjrt_error *e, const char **text, size_t *size);
    int32_t (*code)(const pjrt_error *e);
    void (*for_each_payload)(const pjrt_error *e, void *visitor, void *user);
} pjrt_error_table;
static_assert(sizeof(pjrt_error_table) == 56, "layout");

typedef struct {
    size_t struct_size;
    void *extension_start;
    size_t instance_size;
    void *(*get_user_data)(pjrt_memory *m, const void *key);
    void (*set_user_data)(pjrt_memory *m, const void *key, void *data, void (*discard)(void *data));
} pjrt_memory_table;
static_assert(sizeof(pjrt_memory_table) == 40, "layout");

#endif
