/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/checkpoint.h: named tensors and text in one file, to stop a training and to continue it. The file is a
   .safetensors file, so other programs can read its tensors; its `__metadata__` has the text, the version of the format
   and a checksum (SHA-256) of the whole file. Experimental. */
#ifndef FLUXION_CHECKPOINT_H
#define FLUXION_CHECKPOINT_H

#include <fluxion/tensor.h>

FLX_BEGIN_DECLS

typedef struct flx_checkpoint flx_checkpoint;

/** An empty checkpoint. Free with flx_checkpoint_free(). */
FLX_API flx_checkpoint *flx_checkpoint_new(flx_context *ctx, flx_error *err);
FLX_API void flx_checkpoint_free(flx_checkpoint *c); /* NULL is fine */

/** Adds a tensor, which is shared, not copied. DUP_NAME when the name is taken. */
FLX_API flx_code flx_checkpoint_add(flx_checkpoint *c, const char *name, flx_tensor *tensor, flx_error *err);
/** Adds text: a configuration, a position as a number. Keys that begin with "fluxion." are reserved: NAME. DUP_NAME
    when the key is taken. Both must be UTF-8. */
FLX_API flx_code flx_checkpoint_set(flx_checkpoint *c, const char *key, const char *text, flx_error *err);
FLX_API flx_code flx_checkpoint_set_number(flx_checkpoint *c, const char *key, int64_t number, flx_error *err);

/** Writes the file: first completely under another name in the same folder, synced to the disk, then renamed. So at
    any time, also when the program is killed or the disk is full, the old file or the new one is there. Removes what
    programs that were killed while writing have left over in the folder. */
FLX_API flx_code flx_checkpoint_write(const flx_checkpoint *c, const char *path, flx_error *err);

/** Reads a file that flx_checkpoint_write() has written. SYNTAX when it is damaged or something else, VERSION when a
    newer library has written it. */
FLX_API flx_checkpoint *flx_checkpoint_read(flx_context *ctx, const char *path, flx_error *err);
FLX_API flx_checkpoint *flx_checkpoint_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);

/* ---- What it has. Names, texts and tensors live as long as the checkpoint. ---- */

FLX_API size_t flx_checkpoint_tensors(const flx_checkpoint *c);             /* how many */
FLX_API const char *flx_checkpoint_name(const flx_checkpoint *c, size_t i); /* NULL when out of range */
/** The tensor of this name; NULL, and NAME, when there is none. */
FLX_API flx_tensor *flx_checkpoint_tensor(const flx_checkpoint *c, const char *name, flx_error *err);

FLX_API size_t flx_checkpoint_texts(const flx_checkpoint *c);              /* how many */
FLX_API const char *flx_checkpoint_key(const flx_checkpoint *c, size_t i); /* NULL when out of range */
/** The text of this key, or NULL. */
FLX_API const char *flx_checkpoint_text(const flx_checkpoint *c, const char *key);
/** The text of this key as a number. NAME when there is none, SYNTAX when it is not an integer. */
FLX_API flx_code flx_checkpoint_number(const flx_checkpoint *c, const char *key, int64_t *out, flx_error *err);

FLX_END_DECLS
#endif
