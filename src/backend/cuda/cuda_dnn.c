/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dnn.c: see cuda_dnn.h. */
#include "backend/cuda/cuda_dnn.h"

/* ---- Descriptors ---- */

flxi_dnn_desc flxi_dnn_make(flxi_dnn_builder *b, int kind)
{
    flxi_dnn_desc d = NULL;
    if (b->num_owned == FLXI_DNN_MOST_DESCRIPTORS || b->dnn->CreateDescriptor(kind, &d) != 0) {
        b->failed = true;
        return NULL;
    }
    return b->owned[b->num_owned++] = d;
}

void flxi_dnn_set(flxi_dnn_builder *b, flxi_dnn_desc d, int name, int type, int64_t n, const void *value)
{
    if (!b->failed)
        b->failed = b->dnn->SetAttribute(d, name, type, n, value) != 0;
}

void flxi_dnn_set_desc(flxi_dnn_builder *b, flxi_dnn_desc d, int name, flxi_dnn_desc value)
{
    flxi_dnn_set(b, d, name, FLXI_DNN_OF_DESCRIPTOR, 1, &value);
}

void flxi_dnn_finish(flxi_dnn_builder *b, flxi_dnn_desc d)
{
    if (!b->failed)
        b->failed = b->dnn->Finalize(d) != 0;
}

flxi_dnn_desc flxi_dnn_add_tensor(flxi_dnn_builder *b, const flxi_dnn_tensor *t)
{
    flxi_dnn_desc d = flxi_dnn_make(b, FLXI_DNN_TENSOR);
    int64_t alignment = t->is_by_value ? sizeof(float) : 16;
    flxi_dnn_set(b, d, FLXI_DNN_TENSOR_TYPE, FLXI_DNN_OF_DATA_TYPE, 1, &t->type);
    flxi_dnn_set(b, d, FLXI_DNN_TENSOR_DIMENSIONS, FLXI_DNN_OF_INT64, t->rank, t->dims);
    flxi_dnn_set(b, d, FLXI_DNN_TENSOR_STRIDES, FLXI_DNN_OF_INT64, t->rank, t->strides);
    flxi_dnn_set(b, d, FLXI_DNN_TENSOR_ID, FLXI_DNN_OF_INT64, 1, &t->id);
    flxi_dnn_set(b, d, FLXI_DNN_TENSOR_ALIGNMENT, FLXI_DNN_OF_INT64, 1, &alignment);
    if (t->is_virtual)
        flxi_dnn_set(b, d, FLXI_DNN_TENSOR_IS_VIRTUAL, FLXI_DNN_OF_BOOLEAN, 1, &t->is_virtual);
    if (t->is_by_value)
        flxi_dnn_set(b, d, FLXI_DNN_TENSOR_IS_BY_VALUE, FLXI_DNN_OF_BOOLEAN, 1, &t->is_by_value);
    flxi_dnn_finish(b, d);
    return d;
}

void flxi_dnn_add_operation(flxi_dnn_builder *b, flxi_dnn_desc d)
{
    flxi_dnn_finish(b, d);
    if (b->num_operations == FLXI_DNN_MOST_OPERATIONS)
        b->failed = true;
    else
        b->operations[b->num_operations++] = d;
}

/* ---- Plans ---- */

/* Whether the engine of a configuration has one of these notes, or does not say. */
static bool has_note(flxi_dnn_builder *b, flxi_dnn_desc config, uint32_t refused)
{
    int notes[FLXI_DNN_MOST_NOTES];
    int64_t count = 0;
    if (!refused)
        return false;
    flxi_dnn_desc engine = flxi_dnn_make(b, FLXI_DNN_ENGINE);
    if (b->failed ||
        b->dnn->GetAttribute(config, FLXI_DNN_CONFIG_ENGINE, FLXI_DNN_OF_DESCRIPTOR, 1, &count, &engine) != 0 ||
        b->dnn->GetAttribute(engine, FLXI_DNN_ENGINE_NOTES, FLXI_DNN_OF_NOTE, FLXI_DNN_MOST_NOTES, &count, notes) != 0)
        return true;
    for (int64_t i = 0; i < count && i < FLXI_DNN_MOST_NOTES; i++)
        if (notes[i] >= 0 && notes[i] < 32 && (refused >> notes[i] & 1))
            return true;
    return false;
}

static void try_config(flxi_dnn_builder *b, flxi_dnn_handle handle, flxi_dnn_desc config)
{
    int64_t count = 0;
    flxi_dnn_desc plan = flxi_dnn_make(b, FLXI_DNN_PLAN);
    flxi_dnn_set(b, plan, FLXI_DNN_PLAN_HANDLE, FLXI_DNN_OF_HANDLE, 1, &handle);
    flxi_dnn_set_desc(b, plan, FLXI_DNN_PLAN_CONFIG, config);
    if (!b->failed && b->dnn->Finalize(plan) == 0 &&
        b->dnn->GetAttribute(plan, FLXI_DNN_PLAN_WORKSPACE, FLXI_DNN_OF_INT64, 1, &count, &b->workspace) == 0)
        b->plan = plan;
}

void flxi_dnn_make_plan(flxi_dnn_builder *b, flxi_dnn_handle handle, uint32_t refused)
{
    enum { MOST = FLXI_DNN_MOST_CONFIGS };
    flxi_dnn_desc graph = flxi_dnn_make(b, FLXI_DNN_GRAPH), heur = flxi_dnn_make(b, FLXI_DNN_ENGINEHEUR), configs[MOST];
    const int mode = FLXI_DNN_HEUR_MODE_A;
    int64_t count = 0;
    flxi_dnn_set(b, graph, FLXI_DNN_GRAPH_OPS, FLXI_DNN_OF_DESCRIPTOR, b->num_operations, b->operations);
    flxi_dnn_set(b, graph, FLXI_DNN_GRAPH_HANDLE, FLXI_DNN_OF_HANDLE, 1, &handle);
    flxi_dnn_finish(b, graph);
    flxi_dnn_set_desc(b, heur, FLXI_DNN_HEUR_GRAPH, graph);
    flxi_dnn_set(b, heur, FLXI_DNN_HEUR_MODE, FLXI_DNN_OF_HEUR_MODE, 1, &mode);
    flxi_dnn_finish(b, heur);
    for (int i = 0; i < MOST; i++)
        configs[i] = flxi_dnn_make(b, FLXI_DNN_ENGINECFG);
    if (b->failed || b->dnn->GetAttribute(heur, FLXI_DNN_HEUR_RESULTS, FLXI_DNN_OF_DESCRIPTOR, MOST, &count, configs))
        return;
    for (int64_t i = 0; i < count && i < MOST && !b->plan; i++)
        if (!has_note(b, configs[i], refused))
            try_config(b, handle, configs[i]);
}

void flxi_dnn_free(flxi_dnn_builder *b)
{
    for (int i = b->num_owned; i-- > 0;)
        b->dnn->DestroyDescriptor(b->owned[i]);
    b->num_owned = 0;
}

flxi_dnn_handle flxi_dnn_handle_of(flxi_card *card)
{
    const flxi_cudnn *dnn = flxi_cuda_dnn(NULL);
    if (dnn && !card->dnn && dnn->Create(&card->dnn) != 0)
        card->dnn = NULL;
    return card->dnn;
}

/* ---- Running ---- */

static int run_plan(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_builder *b, flxi_dnn_desc pack)
{
    pthread_mutex_lock(&card->lock); /* the handle has one stream at a time */
    int status = b->dnn->SetStream(card->dnn, stream);
    if (status == 0)
        status = b->dnn->Execute(card->dnn, b->plan, pack);
    pthread_mutex_unlock(&card->lock);
    return status;
}

flx_code flxi_dnn_execute(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_builder *b, const flxi_dnn_operands *o,
                          const char *what, flx_error *err)
{
    const flxi_cudnn *dnn = b->dnn;
    flxi_dnn_desc pack = NULL;
    int status = dnn->CreateDescriptor(FLXI_DNN_PACK, &pack);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_IDS, FLXI_DNN_OF_INT64, o->n, o->ids);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_POINTERS, FLXI_DNN_OF_POINTER, o->n, o->pointers);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_WORKSPACE, FLXI_DNN_OF_POINTER, 1, &o->workspace);
    if (status == 0)
        status = dnn->Finalize(pack);
    if (status == 0)
        status = run_plan(card, stream, b, pack);
    if (pack)
        dnn->DestroyDescriptor(pack);
    return status == 0 ? FLX_OK : flxi_fail(err, FLX_E_DEVICE, "cuDNN: %s failed with status %d", what, status);
}
