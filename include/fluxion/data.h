/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/data.h: data for training. A dataset is a set of named columns with one example in each row of axis 0. A
   loader returns batches of it as feeds, shuffled by a seed. Readers make datasets from files, which are treated as
   untrusted. The same files, options and seeds give the same batches on every machine. Experimental. */
#ifndef FLUXION_DATA_H
#define FLUXION_DATA_H

#include <fluxion/run.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>

FLX_BEGIN_DECLS

/* ---- Datasets ---- */

/* Named columns with the same number of rows. Threads may read one dataset at the same time. */
typedef struct flx_dataset flx_dataset;

/** An empty dataset. Free with flx_dataset_free(). */
FLX_API flx_dataset *flx_dataset_new(flx_context *ctx, flx_error *err);
FLX_API void flx_dataset_free(flx_dataset *d); /* NULL is fine */

/** Adds a tensor as a column: its axis 0 has the rows. It is shared, not copied. DUP_NAME when the name is taken, SHAPE
    when it is a scalar or the number of rows differs from that of the other columns. */
FLX_API flx_code flx_dataset_add(flx_dataset *d, const char *name, flx_tensor *column, flx_error *err);

/** Removes a column, such as labels that a model does not take. Loaders that were made before keep it. NAME when there
    is none. */
FLX_API flx_code flx_dataset_remove(flx_dataset *d, const char *name, flx_error *err);

/* Writes row `row` to `out`. Called by the thread that fills batches, one call at a time for each loader. */
typedef flx_code (*flx_row_fn)(void *user, int64_t row, void *out, flx_error *err);

/** Adds a column whose rows, of type `row`, are made when they are needed: read from somewhere, or varied at random.
    The same row should always be the same, or batches cannot be repeated. `user` must live as long as the dataset and
    its loaders. */
FLX_API flx_code flx_dataset_add_rows(flx_dataset *d, const char *name, const flx_type *row, int64_t rows,
                                      flx_row_fn make, void *user, flx_error *err);

/** Batches have the column as another dtype, each element times `scale` (0: 1) plus `offset`; what is stored stays as
    it is. To f32 or f64 from any real dtype; to i32 or i64 from integers and bool that fit, with scale 1 and offset 0.
    DTYPE otherwise. */
FLX_API flx_code flx_dataset_convert(flx_dataset *d, const char *name, flx_dtype to, double scale, double offset,
                                     flx_error *err);

FLX_API int64_t flx_dataset_rows(const flx_dataset *d);
FLX_API size_t flx_dataset_columns(const flx_dataset *d); /* how many */

/** The name and the type of column i; NULL when it is out of range. Dimension 0 of the type is the number of rows. They
    live until the dataset changes. */
FLX_API const char *flx_dataset_name(const flx_dataset *d, size_t i);
FLX_API const flx_type *flx_dataset_type(const flx_dataset *d, size_t i);

/** What the numbers of a column of labels mean: the number of classes (0: not known), and the name of class i. */
FLX_API size_t flx_dataset_classes(const flx_dataset *d);
FLX_API const char *flx_dataset_class(const flx_dataset *d, size_t i);

/** The columns of a table that are the features, in their order: flx_csv_options.features. 0 without them. */
FLX_API size_t flx_dataset_features(const flx_dataset *d);
FLX_API const char *flx_dataset_feature(const flx_dataset *d, size_t i); /* NULL when out of range */

/** Numbers the classes of a column of labels, i32, as in this list, such as that of the data that a model was trained
    on: a reader numbers those that it finds. The dataset then has these classes. NAME, and nothing is changed, when it
    has a class that is not in the list. */
FLX_API flx_code flx_dataset_use_classes(flx_dataset *d, const char *label, const char *const *classes, size_t count,
                                         flx_error *err);

/** The rows of a column that are listed, as batches have them, in a new tensor. INDEX for a row out of range. */
FLX_API flx_tensor *flx_dataset_gather(const flx_dataset *d, const char *name, const int64_t *rows, size_t count,
                                       flx_error *err);

/** Rows [begin, end) of all columns as a dataset of its own, which shares their memory. */
FLX_API flx_dataset *flx_dataset_slice(const flx_dataset *d, int64_t begin, int64_t end, flx_error *err);
/** All rows in a random order, the same for one seed on every machine, as a dataset of its own, which shares their
    memory. */
FLX_API flx_dataset *flx_dataset_shuffle(const flx_dataset *d, uint64_t seed, flx_error *err);

/** Windows of a sequence, for models that predict what comes next: row i of column `x` is elements [i stride, i stride
    + length) of the sequence, and row i of `next` is the same one element later. Windows share the memory of the
    sequence; stride 0 means `length`. Tokens of u8 and u16 become i32 in batches. SHAPE when it is too short. */
FLX_API flx_dataset *flx_dataset_windows(flx_context *ctx, flx_tensor *sequence, int64_t length, int64_t stride,
                                         flx_error *err);

/* ---- Loaders ---- */

/* Flags of flx_loader_options. */
enum {
    FLX_LOADER_SHUFFLE = 1,   /* each epoch has an order of its own, made from the seed and the number of the epoch */
    FLX_LOADER_DROP_LAST = 2, /* the rows after the last whole batch of an epoch are left out */
    FLX_LOADER_PREFETCH = 4   /* a thread gathers the next batch while the caller uses this one */
};

typedef struct flx_loader_options {
    uint32_t struct_size; /* sizeof(flx_loader_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_LOADER_… */
    int64_t batch;        /* rows of a batch; 0: 32 */
    int64_t epochs;       /* 0: without end */
    uint64_t seed;
} flx_loader_options;

typedef struct flx_loader flx_loader;

/** A loader of all columns. It holds their memory, so the dataset may be freed. SIZE when the dataset has no rows, or
    fewer than one batch with FLX_LOADER_DROP_LAST. Free with flx_loader_free(), which waits for a call of a flx_row_fn
    in progress. */
FLX_API flx_loader *flx_loader_new(const flx_dataset *d, const flx_loader_options *options, flx_error *err);
FLX_API void flx_loader_free(flx_loader *l); /* NULL is fine */

/** The next batch: one feed for each column, in their order, with the rows in axis 0. They are valid until the next
    call for this loader. *feeds is NULL, and *count 0, at the end of the last epoch. A batch that fails, since a
    flx_row_fn fails, leaves the position at that batch: the next call tries it again. Allocates nothing, except for a
    batch of another size. One thread at a time. */
FLX_API flx_code flx_loader_next(flx_loader *l, const flx_feed **feeds, size_t *count, flx_error *err);

/** Where the next batch begins: the epoch, counted from 0, and the number of its rows that are done. Either may be
    NULL. Saved with a model, and given to flx_loader_seek(), the two numbers continue with exactly the same batches. */
FLX_API void flx_loader_position(const flx_loader *l, int64_t *epoch, int64_t *row);
/** Continues at that position. USAGE when it is out of range. */
FLX_API flx_code flx_loader_seek(flx_loader *l, int64_t epoch, int64_t row, flx_error *err);

FLX_API int64_t flx_loader_batches(const flx_loader *l); /* of one epoch */

/* ---- Files ---- */

/** The arrays of a .npz or .safetensors file as columns, or that of a .npy file as the column `x`. */
FLX_API flx_dataset *flx_arrays_read(flx_context *ctx, const char *path, flx_error *err);

/* Flags of flx_csv_options. */
enum {
    FLX_CSV_NO_HEADER = 1 /* the first line is data; columns are called c0, c1 … */
};

typedef struct flx_csv_options {
    uint32_t struct_size; /* sizeof(flx_csv_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_CSV_… */
    const char *label;    /* the column with classes, or NULL: i32 numbers; text is numbered in order of the alphabet */
    const char *features; /* all other columns become one of this name, f32 [rows, columns]; NULL: each is a column */
    int32_t separator;    /* a character; 0: a comma */
    int32_t reserved;     /* 0 */
    const char *target;   /* the column with the numbers to predict, f32, left out of the features; or NULL */
    const char *const *order; /* the names of the columns of the features, in the order that they get; the table must
                                 have these and no others. NULL: as in the table */
    size_t num_order;
} flx_csv_options;

/** Reads a table: fields may be quoted ("" is a quote), lines end with LF or CRLF, empty lines are skipped. A column of
    integers is i64, one of other numbers f32. A missing value, text outside of the label, and a line with another
    number of fields are errors, with line and column; so is a label that has fractions. */
FLX_API flx_dataset *flx_csv_decode(flx_context *ctx, const void *bytes, size_t size, const flx_csv_options *options,
                                    flx_error *err);
FLX_API flx_dataset *flx_csv_read(flx_context *ctx, const char *path, const flx_csv_options *options, flx_error *err);

/** Reads an image, [channels, height, width] of u8 or u16: PGM and PPM, as text or binary (smaller maxima are scaled to
    255 or 65535), and PNG of every colour type and depth, interlaced or not. A palette becomes RGB; what is transparent
    becomes a channel more. */
FLX_API flx_tensor *flx_image_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);
FLX_API flx_tensor *flx_image_read(flx_context *ctx, const char *path, flx_error *err);

/** Reads sound, f32 [channels, samples] within [-1, 1]: WAV with 8, 16, 24 or 32 bits, or 32-bit floats as they are.
    *rate (may be NULL) receives the samples per second. */
FLX_API flx_tensor *flx_wav_decode(flx_context *ctx, const void *bytes, size_t size, int64_t *rate, flx_error *err);
FLX_API flx_tensor *flx_wav_read(flx_context *ctx, const char *path, int64_t *rate, flx_error *err);

/** The bytes of a file, u8 [size]. */
FLX_API flx_tensor *flx_bytes_read(flx_context *ctx, const char *path, flx_error *err);

typedef struct flx_folder_options {
    uint32_t struct_size; /* sizeof(flx_folder_options); 0: the layout of version 0.2 */
    int32_t channels;     /* of images: 1 (grey), 3 (RGB); 0: as in the first file */
    int64_t samples;      /* of sound: longer files are cut, shorter ones end with silence; 0: as in the first file */
} flx_folder_options;

/** Images (.pgm .ppm .pnm .png) or sound (.wav) in one sub-folder for each class. Column `x` has the files, which must
    have one shape: images as u8 or u16 that batches give as f32 from 0 to 1, sound as f32. Column `label` is i32.
    Classes and files are in order of the alphabet; other files and those that begin with a dot are left out. */
FLX_API flx_dataset *flx_folder_read(flx_context *ctx, const char *path, const flx_folder_options *options,
                                     flx_error *err);

/* ---- Tokenisers ---- */

/* A byte-pair tokeniser: tokens 0 to 255 are the bytes, each further one joins two earlier ones. Text is first split
   into pieces (a word with the blank before it, digits, signs, white space; at most 64 bytes), and no token crosses
   two of them. Any bytes can be encoded, and decode to the same bytes. Threads may share one. */
typedef struct flx_tokeniser flx_tokeniser;

/** Learns a vocabulary of that size (256 to 1048576) from a text: the most frequent pair is joined, again and again;
    among equal ones the pair with the lower numbers. Stops early when no pair occurs twice. */
FLX_API flx_tokeniser *flx_tokeniser_train(flx_context *ctx, const char *text, size_t size, int64_t vocabulary,
                                           flx_error *err);
FLX_API void flx_tokeniser_free(flx_tokeniser *t);          /* NULL is fine */
FLX_API int64_t flx_tokeniser_size(const flx_tokeniser *t); /* tokens */

/** The tokens of a text, i32 [n], in time proportional to its length. */
FLX_API flx_tensor *flx_tokeniser_encode(const flx_tokeniser *t, const char *text, size_t size, flx_error *err);
/** The text of tokens. INDEX for a number that is not a token. */
FLX_API flx_code flx_tokeniser_decode(const flx_tokeniser *t, const int32_t *tokens, size_t count, flx_buffer *out,
                                      flx_error *err);

/** A tokeniser as JSON, and back. */
FLX_API flx_tokeniser *flx_tokeniser_parse(flx_context *ctx, const char *text, size_t size, flx_error *err);
FLX_API flx_code flx_tokeniser_print(const flx_tokeniser *t, flx_buffer *out, flx_error *err);
FLX_API flx_tokeniser *flx_tokeniser_read(flx_context *ctx, const char *path, flx_error *err);
FLX_API flx_code flx_tokeniser_write(const flx_tokeniser *t, const char *path, flx_error *err);

/** Windows of a text (flx_dataset_windows()): of its bytes, or of its tokens if `t` is not NULL. */
FLX_API flx_dataset *flx_dataset_text(flx_context *ctx, const char *text, size_t size, const flx_tokeniser *t,
                                      int64_t length, int64_t stride, flx_error *err);

/* ---- Generated data: needs no files ---- */

/** Drawn digits: `x` of 28 by 28 points with strokes that vary in slant, thickness, size and position, and noise,
    u8 [rows, 1, 28, 28] that batches give as f32 from 0 to 1; `label` i32. Classes are equally frequent, in random
    order. */
FLX_API flx_dataset *flx_digits(flx_context *ctx, int64_t rows, uint64_t seed, flx_error *err);

/** English text of at least `size` bytes that a small model can learn: a handwritten page, then sentences from a
    grammar. It ends with a whole paragraph. */
FLX_API flx_code flx_demo_text(flx_context *ctx, size_t size, uint64_t seed, flx_buffer *out, flx_error *err);

/** Swings of damped pendulums that differ in length, damping and beginning: `x` f32 [rows, length, 2] has the angle and
    its velocity at each tenth of a second, `next` the same one step later. */
FLX_API flx_dataset *flx_pendulum(flx_context *ctx, int64_t rows, int64_t length, uint64_t seed, flx_error *err);

FLX_END_DECLS
#endif
