/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_own.c: functions of our own (backend/card) as kernels of an OpenCL device. */
#include "backend/opencl/opencl_engine.h"

#include <stdio.h>

/* A kernel of a text; the text's program belongs to it if it was the first that was wanted. */
struct flxi_opencl_own {
    const flxi_card_text *text;
    int32_t variant;
    cl_program program;
    flxi_opencl_own *next;
    const char *name; /* a literal; NULL: the program itself */
    cl_kernel kernel;
};

static flxi_opencl_own *find(const flxi_opencl_engine *e, const flxi_card_text *text, int32_t variant, const char *name)
{
    flxi_opencl_own *own = e->own;
    while (own && (own->text != text || own->variant != variant || (own->name != NULL) != (name != NULL) ||
                   (name && strcmp(own->name, name) != 0)))
        own = own->next;
    return own;
}

static flxi_opencl_own *add(flxi_opencl_engine *e, const flxi_opencl_own *row)
{
    flxi_opencl_own *own = flxi_alloc(e->mem, 1, sizeof *own);
    if (!own)
        return NULL;
    *own = *row;
    own->next = e->own;
    return e->own = own;
}

static flx_code build(flxi_opencl_engine *e, flxi_opencl_own *row, flx_error *err)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, e->mem);
    if (e->has_f64)
        flxi_add_text(&text, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
    row->text->write(FLXI_CARD_OPENCL, row->variant, &text);
    flx_code code =
        text.failed ? flxi_oom(err, "a kernel") : flxi_opencl_build(e, e->cache, &text, &row->program, NULL, err);
    flxi_strbuf_free(&text);
    return code;
}

static flx_code find_program(flxi_opencl_engine *e, const flxi_card_text *text, int32_t variant, cl_program *out,
                             flx_error *err)
{
    flxi_opencl_own *own = find(e, text, variant, NULL), row = {.text = text, .variant = variant};
    if (own) {
        *out = own->program;
        return FLX_OK;
    }
    FLXI_TRY(build(e, &row, err));
    *out = row.program;
    if (add(e, &row))
        return FLX_OK;
    e->cl.clReleaseProgram(row.program);
    return flxi_oom(err, "a kernel");
}

/* With the lock held. */
static flx_code find_kernel(flxi_opencl_engine *e, const flxi_card_launch *l, cl_kernel *out, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    flxi_opencl_own *own = find(e, l->text, l->variant, l->name);
    flxi_opencl_own row = {.text = l->text, .variant = l->variant, .name = l->name};
    cl_program program;
    if (own) {
        *out = own->kernel;
        return FLX_OK;
    }
    FLXI_TRY(find_program(e, l->text, l->variant, &program, err));
    *out = row.kernel = e->cl.clCreateKernel(program, l->name, &status);
    if (!row.kernel)
        return flxi_opencl_fail(err, "clCreateKernel", status);
    if (add(e, &row))
        return FLX_OK;
    e->cl.clReleaseKernel(row.kernel);
    return flxi_oom(err, "a kernel");
}

void flxi_opencl_free_own(flxi_opencl_engine *e)
{
    for (flxi_opencl_own *own = e->own, *next; own; own = next) {
        next = own->next;
        if (own->kernel)
            e->cl.clReleaseKernel(own->kernel);
        if (own->program)
            e->cl.clReleaseProgram(own->program);
        flxi_free(e->mem, own, 1, sizeof *own);
    }
    e->own = NULL;
}

/* ---- Launching ---- */

/* A structure is copied to memory that the driver frees after the launch. */
static flx_code give_form(flxi_opencl_engine *e, cl_kernel k, cl_uint i, const flxi_card_argument *a, cl_mem *form,
                          flx_error *err)
{
    cl_int status = CL_SUCCESS;
    *form = e->cl.clCreateBuffer(e->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, a->size, (void *)(uintptr_t)a->at,
                                 &status);
    if (!*form)
        return flxi_opencl_fail(err, "clCreateBuffer", status);
    status = e->cl.clSetKernelArg(k, i, sizeof *form, form);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(err, "clSetKernelArg", status);
}

static flx_code give_all(flxi_opencl_engine *e, cl_kernel k, const flxi_card_launch *l, cl_mem *form, flx_error *err)
{
    for (cl_uint i = 0; i < l->num_arguments; i++) {
        const flxi_card_argument *a = &l->arguments[i];
        if (a->by == FLXI_BY_FORM) {
            FLXI_TRY(give_form(e, k, i, a, form, err));
            continue;
        }
        bool is_address = a->by == FLXI_BY_ADDRESS;
        void *address = is_address ? *(void *const *)a->at : NULL;
        if (is_address && address == e->finding)
            atomic_store(&e->may_find, true);
        cl_int status =
            is_address ? e->cl.clSetKernelArgSVMPointer(k, i, address) : e->cl.clSetKernelArg(k, i, a->size, a->at);
        if (status != CL_SUCCESS)
            return flxi_opencl_fail(err, "clSetKernelArg", status);
    }
    return FLX_OK;
}

static flx_code launch(const flxi_launcher *on, const flxi_card_launch *l, flx_error *err)
{
    const flxi_opencl_launcher *c = (const flxi_opencl_launcher *)on;
    flxi_opencl_engine *e = c->engine;
    cl_kernel k;
    cl_mem form = NULL;
    const size_t groups[3] = {l->blocks, 1, 1}, size[3] = {l->wide, l->high, 1};
    if (l->blocks == 0)
        return FLX_OK;
    pthread_mutex_lock(&e->lock);
    flx_code code = find_kernel(e, l, &k, err);
    pthread_mutex_unlock(&e->lock);
    FLXI_TRY(code);
    pthread_mutex_lock(&e->launch);
    code = give_all(e, k, l, &form, err);
    if (code == FLX_OK)
        code = flxi_opencl_enqueue(e, c->queue, k, groups, size, err);
    pthread_mutex_unlock(&e->launch);
    if (form)
        e->cl.clReleaseMemObject(form);
    return code;
}

static flx_code copy_bytes(const flxi_launcher *on, bool waits, void *to, const void *from, size_t nbytes,
                           flx_error *err)
{
    const flxi_opencl_launcher *c = (const flxi_opencl_launcher *)on;
    cl_int status =
        nbytes ? c->engine->cl.clEnqueueSVMMemcpy(c->queue, waits, to, from, nbytes, 0, NULL, NULL) : CL_SUCCESS;
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(err, "clEnqueueSVMMemcpy", status);
}

static flx_code copy(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err)
{
    return copy_bytes(on, false, to, from, nbytes, err);
}

static flx_code fetch(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err)
{
    return copy_bytes(on, true, to, from, nbytes, err);
}

static flx_code clear(const flxi_launcher *on, void *to, size_t nbytes, flx_error *err)
{
    static const unsigned char zero;
    const flxi_opencl_launcher *c = (const flxi_opencl_launcher *)on;
    cl_int status =
        nbytes ? c->engine->cl.clEnqueueSVMMemFill(c->queue, to, &zero, 1, nbytes, 0, NULL, NULL) : CL_SUCCESS;
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(err, "clEnqueueSVMMemFill", status);
}

flxi_opencl_launcher flxi_opencl_launcher_for(flxi_opencl_engine *e, cl_command_queue queue)
{
    return (flxi_opencl_launcher){.on = {.language = FLXI_CARD_OPENCL,
                                         .most_threads = e->max_workgroup < 1024 ? (uint32_t)e->max_workgroup : 1024,
                                         .finding = e->finding,
                                         .launch = launch,
                                         .run = flxi_opencl_run,
                                         .copy = copy,
                                         .fetch = fetch,
                                         .clear = clear},
                                  .engine = e,
                                  .queue = queue};
}
