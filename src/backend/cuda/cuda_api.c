/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_api.c: see cuda_api.h. Libraries are looked for by the names of their versions, first as the loader finds them,
   then in the folders of a toolkit. */
#include "backend/cuda/cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* What is loaded once, or the reason why it is not. */
typedef struct {
    bool is_there;
    flx_error why_not;
} loading;

typedef struct {
    const char *symbol;
    void **at;
} wanted;

static const char use_cpu[] = "use device cpu, which needs no card";

/* In a folder of a toolkit, which may be "". */
static void *open_in(const char *folder, const char *const *names)
{
    char path[512];
    for (; *names; names++) {
        int n = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/lib64/" : "", *names);
        void *library = n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library)
            return library;
    }
    return NULL;
}

static void *open_any(const char *const *names)
{
    const char *home = getenv("CUDA_HOME");
    void *library = open_in("", names);
    if (!library && home && home[0] == '/')
        library = open_in(home, names);
    return library ? library : open_in("/usr/local/cuda", names);
}

/* All functions of a library. */
static flx_code find_all(const char *const *names, const char *hint, const wanted *list, flx_error *err)
{
    void *library = open_any(names);
    if (!library)
        return flxi_fail_hint(err, FLX_E_DEVICE, hint, "%s cannot be loaded", names[0]);
    for (; list->symbol; list++)
        if (!(*list->at = dlsym(library, list->symbol))) {
            dlclose(library);
            return flxi_fail_hint(err, FLX_E_DEVICE, hint, "%s has no %s", names[0], list->symbol);
        }
    return FLX_OK;
}

flx_code flxi_cuda_fail(const flxi_cuda *cu, const char *what, flxi_cu_result result, flx_error *err)
{
    const char *name = NULL;
    if (cu->GetErrorName(result, &name) != FLXI_CU_SUCCESS || !name)
        name = "unknown error";
    if (result == FLXI_CU_OUT_OF_MEMORY)
        return flxi_fail_hint(err, FLX_E_OOM, "use smaller extents; flx devices shows the memory of the card",
                              "the card is out of memory: %s (%s)", what, name);
    return flxi_fail_hint(err, FLX_E_DEVICE, use_cpu, "CUDA: %s failed: %s (%d)", what, name, result);
}

/* ---- The driver ---- */

static flxi_cuda driver;
static loading driver_state;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

/* CUDA 12.0: graphs and the functions above are there from then on. */
enum { LEAST_DRIVER = 12000 };

static flx_code start_driver(flx_error *err)
{
    int version = 0, count = 0;
    flxi_cu_result result = driver.Init(0);
    if (result == FLXI_CU_SUCCESS)
        result = driver.DeviceGetCount(&count);
    if (result == FLXI_CU_NO_DEVICE || (result == FLXI_CU_SUCCESS && count == 0))
        return flxi_fail_hint(err, FLX_E_DEVICE, use_cpu, "the driver finds no card");
    if (result != FLXI_CU_SUCCESS)
        return flxi_cuda_fail(&driver, "cuInit", result, err);
    FLXI_CU_TRY(&driver, err, DriverGetVersion, &version);
    if (version < LEAST_DRIVER)
        return flxi_fail_hint(err, FLX_E_DEVICE, "install a driver for CUDA 12 or later, or use device cpu",
                              "the driver is too old: it is for CUDA %d.%d", version / 1000, version % 1000 / 10);
    return FLX_OK;
}

static void load_driver(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    const wanted list[] = {
#define FLXI_CUDA_ROW(name, symbol, parameters) {symbol, (void **)&driver.name},
        FLXI_CUDA_DRIVER(FLXI_CUDA_ROW)
#undef FLXI_CUDA_ROW
            {0}};
    driver_state.is_there = find_all(names, "install the driver of an NVIDIA card, or use device cpu", list,
                                     &driver_state.why_not) == FLX_OK &&
                            start_driver(&driver_state.why_not) == FLX_OK;
}

/* ---- Libraries ---- */

static flxi_nvrtc nvrtc;
static loading nvrtc_state;
static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;

static void load_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    const wanted list[] = {
#define FLXI_NVRTC_ROW(name, symbol, parameters) {symbol, (void **)&nvrtc.name},
        FLXI_CUDA_NVRTC(FLXI_NVRTC_ROW)
#undef FLXI_NVRTC_ROW
            {0}};
    nvrtc_state.is_there =
        find_all(names, "install CUDA's NVRTC, or set CUDA_HOME", list, &nvrtc_state.why_not) == FLX_OK;
}

static flxi_cublaslt lt;
static loading lt_state;
static pthread_once_t lt_once = PTHREAD_ONCE_INIT;

static void load_lt(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    const wanted list[] = {
#define FLXI_LT_ROW(name, symbol, parameters) {symbol, (void **)&lt.name},
        FLXI_CUDA_LT(FLXI_LT_ROW)
#undef FLXI_LT_ROW
            {0}};
    lt_state.is_there = find_all(names, "install CUDA's cuBLAS, or set CUDA_HOME", list, &lt_state.why_not) == FLX_OK;
}

static flxi_cudnn dnn;
static loading dnn_state;
static pthread_once_t dnn_once = PTHREAD_ONCE_INIT;

static void load_dnn(void)
{
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    const wanted list[] = {
#define FLXI_DNN_ROW(name, symbol, parameters) {symbol, (void **)&dnn.name},
        FLXI_CUDA_DNN(FLXI_DNN_ROW)
#undef FLXI_DNN_ROW
            {0}};
    dnn_state.is_there = find_all(names, "install cuDNN 9, or set CUDA_HOME", list, &dnn_state.why_not) == FLX_OK;
}

static flxi_nccl nccl;
static loading nccl_state;
static pthread_once_t nccl_once = PTHREAD_ONCE_INIT;

/* 2.18: communicators that return at once are complete from then on. */
enum { LEAST_NCCL = 21800 };

static flx_code check_nccl(flx_error *err)
{
    int version = 0;
    if (nccl.GetVersion(&version) == 0 && version >= LEAST_NCCL)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_DEVICE, "install NCCL 2.18 or later", "NCCL is too old: its version is %d.%d",
                          version / 10000, version % 10000 / 100);
}

static void load_nccl(void)
{
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    const wanted list[] = {
#define FLXI_NCCL_ROW(name, symbol, parameters) {symbol, (void **)&nccl.name},
        FLXI_CUDA_NCCL(FLXI_NCCL_ROW)
#undef FLXI_NCCL_ROW
            {0}};
    nccl_state.is_there = find_all(names, "install NCCL 2, or set CUDA_HOME", list, &nccl_state.why_not) == FLX_OK &&
                          check_nccl(&nccl_state.why_not) == FLX_OK;
}

static bool is_loaded(const loading *l, flx_error *err)
{
    if (!l->is_there && err)
        *err = l->why_not;
    return l->is_there;
}

const flxi_cuda *flxi_cuda_driver(flx_error *err)
{
    pthread_once(&driver_once, load_driver);
    return is_loaded(&driver_state, err) ? &driver : NULL;
}

const flxi_nvrtc *flxi_cuda_nvrtc(flx_error *err)
{
    pthread_once(&nvrtc_once, load_nvrtc);
    return is_loaded(&nvrtc_state, err) ? &nvrtc : NULL;
}

const flxi_cudnn *flxi_cuda_dnn(flx_error *err)
{
    pthread_once(&dnn_once, load_dnn);
    return is_loaded(&dnn_state, err) ? &dnn : NULL;
}

const flxi_cublaslt *flxi_cuda_lt(flx_error *err)
{
    pthread_once(&lt_once, load_lt);
    return is_loaded(&lt_state, err) ? &lt : NULL;
}

const flxi_nccl *flxi_cuda_nccl(flx_error *err)
{
    pthread_once(&nccl_once, load_nccl);
    return is_loaded(&nccl_state, err) ? &nccl : NULL;
}
