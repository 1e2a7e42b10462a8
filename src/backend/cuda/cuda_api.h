/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_api.h: the parts of CUDA's libraries that are used here: the driver, NVRTC, cuBLASLt, cuDNN and NCCL. They are
   looked for at run time, once for the process, and stay loaded. No header of CUDA is needed to build, and no library
   to run what does not use it. Names and values are those of CUDA's headers, which tests/backend/cuda_headers.c
   compares where they are installed. */
#ifndef FLXI_CUDA_API_H
#define FLXI_CUDA_API_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- The driver ---- */

typedef int flxi_cu_result, flxi_cu_device;
typedef unsigned long long flxi_cu_address;
typedef struct CUctx_st *flxi_cu_context;
typedef struct CUstream_st *flxi_cu_stream;
typedef struct CUmod_st *flxi_cu_module;
typedef struct CUfunc_st *flxi_cu_function;
typedef struct CUgraph_st *flxi_cu_graph;
typedef struct CUgraphNode_st *flxi_cu_node;
typedef struct CUgraphExec_st *flxi_cu_graph_exec;

enum {
    FLXI_CU_SUCCESS = 0,
    FLXI_CU_OUT_OF_MEMORY = 2,
    FLXI_CU_NO_DEVICE = 100,
    FLXI_CU_NOT_READY = 600,
    FLXI_CU_MAX_THREADS_PER_BLOCK = 1, /* of cuDeviceGetAttribute */
    FLXI_CU_MULTIPROCESSOR_COUNT = 16,
    FLXI_CU_COMPUTE_CAPABILITY_MAJOR = 75,
    FLXI_CU_COMPUTE_CAPABILITY_MINOR = 76,
    FLXI_CU_COOPERATIVE_LAUNCH = 95,
    FLXI_CU_FUNC_MOST_SHARED = 8, /* of cuFuncSetAttribute: shared memory that a launch asks for */
    FLXI_CU_HOST_MAPPED = 3,      /* of cuMemHostAlloc: all contexts see it, and the card at the same address */
    FLXI_CU_STREAM_NON_BLOCKING = 1,
    FLXI_CU_CAPTURE_THREAD_LOCAL = 1,
    FLXI_CU_SET_DEPENDENCIES = 1, /* of cuStreamUpdateCaptureDependencies */
};

/* X(name, symbol, parameters); the result is a flxi_cu_result. */
#define FLXI_CUDA_DRIVER(X)                                                                                       \
    X(Init, "cuInit", (unsigned))                                                                                 \
    X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                            \
    X(GetErrorName, "cuGetErrorName", (flxi_cu_result, const char **))                                            \
    X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                                \
    X(DeviceGet, "cuDeviceGet", (flxi_cu_device *, int))                                                          \
    X(DeviceGetName, "cuDeviceGetName", (char *, int, flxi_cu_device))                                            \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, flxi_cu_device))                                          \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, flxi_cu_device))                                   \
    X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (flxi_cu_context *, flxi_cu_device))                          \
    X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (flxi_cu_device))                                        \
    X(CtxSetCurrent, "cuCtxSetCurrent", (flxi_cu_context))                                                        \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                        \
    X(MemAlloc, "cuMemAlloc_v2", (flxi_cu_address *, size_t))                                                     \
    X(MemFree, "cuMemFree_v2", (flxi_cu_address))                                                                 \
    X(MemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                \
    X(MemFreeHost, "cuMemFreeHost", (void *))                                                                     \
    X(MemsetD8Async, "cuMemsetD8Async", (flxi_cu_address, unsigned char, size_t, flxi_cu_stream))                 \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (flxi_cu_address, const void *, size_t, flxi_cu_stream))           \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, flxi_cu_address, size_t, flxi_cu_stream))                 \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (flxi_cu_address, flxi_cu_address, size_t, flxi_cu_stream))        \
    X(StreamCreate, "cuStreamCreate", (flxi_cu_stream *, unsigned))                                               \
    X(StreamDestroy, "cuStreamDestroy_v2", (flxi_cu_stream))                                                      \
    X(StreamSynchronize, "cuStreamSynchronize", (flxi_cu_stream))                                                 \
    X(StreamQuery, "cuStreamQuery", (flxi_cu_stream))                                                             \
    X(StreamBeginCapture, "cuStreamBeginCapture_v2", (flxi_cu_stream, int))                                       \
    X(StreamEndCapture, "cuStreamEndCapture", (flxi_cu_stream, flxi_cu_graph *))                                  \
    X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                                          \
      (flxi_cu_stream, int *, unsigned long long *, flxi_cu_graph *, const flxi_cu_node **, size_t *))            \
    X(StreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies",                                       \
      (flxi_cu_stream, flxi_cu_node *, size_t, unsigned))                                                         \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags", (flxi_cu_graph_exec *, flxi_cu_graph, unsigned long long)) \
    X(GraphLaunch, "cuGraphLaunch", (flxi_cu_graph_exec, flxi_cu_stream))                                         \
    X(GraphExecDestroy, "cuGraphExecDestroy", (flxi_cu_graph_exec))                                               \
    X(GraphDestroy, "cuGraphDestroy", (flxi_cu_graph))                                                            \
    X(ModuleLoadData, "cuModuleLoadData", (flxi_cu_module *, const void *))                                       \
    X(ModuleUnload, "cuModuleUnload", (flxi_cu_module))                                                           \
    X(ModuleGetFunction, "cuModuleGetFunction", (flxi_cu_function *, flxi_cu_module, const char *))               \
    X(FuncSetAttribute, "cuFuncSetAttribute", (flxi_cu_function, int, int))                                       \
    X(LaunchKernel, "cuLaunchKernel",                                                                             \
      (flxi_cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, flxi_cu_stream,    \
       void **, void **))                                                                                         \
    X(LaunchCooperativeKernel, "cuLaunchCooperativeKernel",                                                       \
      (flxi_cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, flxi_cu_stream,    \
       void **))

typedef struct {
#define FLXI_CUDA_MEMBER(name, symbol, parameters) flxi_cu_result(*name) parameters;
    FLXI_CUDA_DRIVER(FLXI_CUDA_MEMBER)
#undef FLXI_CUDA_MEMBER
} flxi_cuda;

/* ---- NVRTC ---- */

typedef struct _nvrtcProgram *flxi_nvrtc_program;

/* X(name, symbol, parameters); the result is an int, 0 for success. */
#define FLXI_CUDA_NVRTC(X)                                                                               \
    X(Version, "nvrtcVersion", (int *, int *))                                                           \
    X(CreateProgram, "nvrtcCreateProgram",                                                               \
      (flxi_nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *)) \
    X(DestroyProgram, "nvrtcDestroyProgram", (flxi_nvrtc_program *))                                     \
    X(CompileProgram, "nvrtcCompileProgram", (flxi_nvrtc_program, int, const char *const *))             \
    X(GetCUBINSize, "nvrtcGetCUBINSize", (flxi_nvrtc_program, size_t *))                                 \
    X(GetCUBIN, "nvrtcGetCUBIN", (flxi_nvrtc_program, char *))                                           \
    X(GetProgramLogSize, "nvrtcGetProgramLogSize", (flxi_nvrtc_program, size_t *))                       \
    X(GetProgramLog, "nvrtcGetProgramLog", (flxi_nvrtc_program, char *))

typedef struct {
#define FLXI_NVRTC_MEMBER(name, symbol, parameters) int(*name) parameters;
    FLXI_CUDA_NVRTC(FLXI_NVRTC_MEMBER)
#undef FLXI_NVRTC_MEMBER
} flxi_nvrtc;

/* ---- cuBLASLt ---- */

typedef struct cublasLtContext *flxi_lt_handle;
typedef struct flxi_lt_opaque *flxi_lt_desc, *flxi_lt_layout, *flxi_lt_preference;

typedef struct { /* cublasLtMatmulHeuristicResult_t, with its algorithm of eight words */
    uint64_t algo[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} flxi_lt_heuristic;

enum {
    FLXI_LT_R_32F = 0, /* cudaDataType_t */
    FLXI_LT_R_64F = 1,
    FLXI_LT_R_16F = 2,
    FLXI_LT_R_16BF = 14,
    FLXI_LT_COMPUTE_32F = 68, /* cublasComputeType_t */
    FLXI_LT_COMPUTE_64F = 70,
    FLXI_LT_DESC_TRANSA = 3, /* cublasLtMatmulDescAttributes_t */
    FLXI_LT_DESC_TRANSB = 4,
    FLXI_LT_LAYOUT_BATCH_COUNT = 5, /* cublasLtMatrixLayoutAttribute_t */
    FLXI_LT_LAYOUT_BATCH_STRIDE = 6,
    FLXI_LT_PREF_MAX_WORKSPACE = 1,   /* cublasLtMatmulPreferenceAttributes_t */
    FLXI_LT_PREF_MIN_ALIGNMENT_A = 5, /* … then of b, c and d */
    FLXI_LT_OP_N = 0,
    FLXI_LT_OP_T = 1,
};

/* X(name, symbol, parameters); the result is an int, 0 for success. */
#define FLXI_CUDA_LT(X)                                                                                          \
    X(Create, "cublasLtCreate", (flxi_lt_handle *))                                                              \
    X(Destroy, "cublasLtDestroy", (flxi_lt_handle))                                                              \
    X(MatmulDescCreate, "cublasLtMatmulDescCreate", (flxi_lt_desc *, int, int))                                  \
    X(MatmulDescDestroy, "cublasLtMatmulDescDestroy", (flxi_lt_desc))                                            \
    X(MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute", (flxi_lt_desc, int, const void *, size_t))       \
    X(MatrixLayoutCreate, "cublasLtMatrixLayoutCreate", (flxi_lt_layout *, int, uint64_t, uint64_t, int64_t))    \
    X(MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy", (flxi_lt_layout))                                      \
    X(MatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute", (flxi_lt_layout, int, const void *, size_t)) \
    X(MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate", (flxi_lt_preference *))                          \
    X(MatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (flxi_lt_preference))                          \
    X(MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute",                                      \
      (flxi_lt_preference, int, const void *, size_t))                                                           \
    X(MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic",                                                  \
      (flxi_lt_handle, flxi_lt_desc, flxi_lt_layout, flxi_lt_layout, flxi_lt_layout, flxi_lt_layout,             \
       flxi_lt_preference, int, flxi_lt_heuristic *, int *))                                                     \
    X(Matmul, "cublasLtMatmul",                                                                                  \
      (flxi_lt_handle, flxi_lt_desc, const void *, const void *, flxi_lt_layout, const void *, flxi_lt_layout,   \
       const void *, const void *, flxi_lt_layout, void *, flxi_lt_layout, const void *, void *, size_t,         \
       flxi_cu_stream))

typedef struct {
#define FLXI_LT_MEMBER(name, symbol, parameters) int(*name) parameters;
    FLXI_CUDA_LT(FLXI_LT_MEMBER)
#undef FLXI_LT_MEMBER
} flxi_cublaslt;

/* ---- cuDNN: graphs of operations ---- */

typedef struct cudnnContext *flxi_dnn_handle;
typedef void *flxi_dnn_desc;

enum {
    FLXI_DNN_POINTWISE = 0, /* cudnnBackendDescriptorType_t */
    FLXI_DNN_CONV = 1,
    FLXI_DNN_ENGINE = 2,
    FLXI_DNN_ENGINECFG = 3,
    FLXI_DNN_ENGINEHEUR = 4,
    FLXI_DNN_PLAN = 5,
    FLXI_DNN_CONV_FORWARD = 10,
    FLXI_DNN_CONV_TO_WEIGHT = 11,
    FLXI_DNN_CONV_TO_INPUT = 12,
    FLXI_DNN_POINTWISE_NODE = 13,
    FLXI_DNN_GRAPH = 15,
    FLXI_DNN_PACK = 16,
    FLXI_DNN_TENSOR = 17,
    FLXI_DNN_MATMUL = 18,
    FLXI_DNN_MATMUL_NODE = 19,
    FLXI_DNN_REDUCTION = 21,
    FLXI_DNN_REDUCTION_NODE = 22,
    FLXI_DNN_RESHAPE_NODE = 31,
    FLXI_DNN_POINTWISE_MODE = 0, /* cudnnBackendAttributeName_t */
    FLXI_DNN_POINTWISE_MATH = 1,
    FLXI_DNN_POINTWISE_AXIS = 9,
    FLXI_DNN_CONV_MATH = 100, /* … then mode, dilations, strides, padding after, padding before, spatial axes */
    FLXI_DNN_HEUR_MODE = 200,
    FLXI_DNN_HEUR_GRAPH = 201,
    FLXI_DNN_HEUR_RESULTS = 202,
    FLXI_DNN_CONFIG_ENGINE = 300,
    FLXI_DNN_PLAN_HANDLE = 400,
    FLXI_DNN_PLAN_CONFIG = 401,
    FLXI_DNN_PLAN_WORKSPACE = 402,
    FLXI_DNN_FORWARD_ALPHA = 700,   /* … then beta, the descriptor, w, x, z */
    FLXI_DNN_TO_INPUT_ALPHA = 706,  /* … then beta, the descriptor, w, x, z */
    FLXI_DNN_TO_WEIGHT_ALPHA = 712, /* … then beta, the descriptor, w, x, z */
    FLXI_DNN_NODE_POINTWISE = 750,  /* … then X, B, Y */
    FLXI_DNN_NODE_T = 758,
    FLXI_DNN_GRAPH_HANDLE = 800,
    FLXI_DNN_GRAPH_OPS = 801,
    FLXI_DNN_TENSOR_ALIGNMENT = 900,
    FLXI_DNN_TENSOR_TYPE = 901,
    FLXI_DNN_TENSOR_DIMENSIONS = 902,
    FLXI_DNN_TENSOR_STRIDES = 903,
    FLXI_DNN_TENSOR_ID = 906,
    FLXI_DNN_TENSOR_IS_VIRTUAL = 907,
    FLXI_DNN_TENSOR_IS_BY_VALUE = 908,
    FLXI_DNN_PACK_IDS = 1000,
    FLXI_DNN_PACK_POINTERS = 1001,
    FLXI_DNN_PACK_WORKSPACE = 1003,
    FLXI_DNN_ENGINE_NOTES = 1303,
    FLXI_DNN_MATMUL_MATH = 1500,
    FLXI_DNN_MATMUL_A = 1520, /* … then B, C and the descriptor */
    FLXI_DNN_REDUCTION_OPERATOR = 1600,
    FLXI_DNN_REDUCTION_MATH = 1601,
    FLXI_DNN_REDUCTION_X = 1610, /* … then Y and the descriptor */
    FLXI_DNN_RESHAPE_X = 2200,   /* … then Y */
    FLXI_DNN_OF_HANDLE = 0,      /* cudnnBackendAttributeType_t */
    FLXI_DNN_OF_DATA_TYPE = 1,
    FLXI_DNN_OF_BOOLEAN = 2,
    FLXI_DNN_OF_INT64 = 3,
    FLXI_DNN_OF_FLOAT = 4,
    FLXI_DNN_OF_DOUBLE = 5,
    FLXI_DNN_OF_POINTER = 6,
    FLXI_DNN_OF_CONV_MODE = 7,
    FLXI_DNN_OF_HEUR_MODE = 8,
    FLXI_DNN_OF_NOTE = 11,
    FLXI_DNN_OF_POINTWISE_MODE = 14,
    FLXI_DNN_OF_DESCRIPTOR = 15,
    FLXI_DNN_OF_REDUCTION = 18,
    FLXI_DNN_F32 = 0, /* cudnnDataType_t */
    FLXI_DNN_F64 = 1,
    FLXI_DNN_F16 = 2,
    FLXI_DNN_I32 = 4,
    FLXI_DNN_BF16 = 9,
    FLXI_DNN_BOOL = 11,
    FLXI_DNN_ADD = 0, /* cudnnPointwiseMode_t */
    FLXI_DNN_MUL = 1,
    FLXI_DNN_DIV = 6,
    FLXI_DNN_SUB = 9,
    FLXI_DNN_EXP = 13,
    FLXI_DNN_LOG = 15,
    FLXI_DNN_IDENTITY = 21,
    FLXI_DNN_GE = 303,
    FLXI_DNN_INDEX = 501,
    FLXI_DNN_SELECT = 601,
    FLXI_DNN_SUM = 0, /* cudnnReduceTensorOp_t */
    FLXI_DNN_MAX = 3,
    FLXI_DNN_HEUR_MODE_A = 3,
    FLXI_DNN_CROSS_CORRELATION = 1, /* cudnnConvolutionMode_t */
    FLXI_DNN_NOTE_TENSOR_CORE = 0,  /* cudnnBackendNumericalNote_t */
    FLXI_DNN_NOTE_DOWN_CONVERT = 1,
    FLXI_DNN_NOTE_REDUCED_PRECISION = 2,
    FLXI_DNN_NOTE_FFT = 3,
    FLXI_DNN_NOTE_NONDETERMINISTIC = 4,
    FLXI_DNN_NOTE_WINOGRAD = 5, /* … to 8 */
    FLXI_DNN_MOST_NOTES = 16,
};

/* X(name, symbol, parameters); the result is an int, 0 for success. */
#define FLXI_CUDA_DNN(X)                                                                               \
    X(Create, "cudnnCreate", (flxi_dnn_handle *))                                                      \
    X(Destroy, "cudnnDestroy", (flxi_dnn_handle))                                                      \
    X(SetStream, "cudnnSetStream", (flxi_dnn_handle, flxi_cu_stream))                                  \
    X(CreateDescriptor, "cudnnBackendCreateDescriptor", (int, flxi_dnn_desc *))                        \
    X(DestroyDescriptor, "cudnnBackendDestroyDescriptor", (flxi_dnn_desc))                             \
    X(SetAttribute, "cudnnBackendSetAttribute", (flxi_dnn_desc, int, int, int64_t, const void *))      \
    X(GetAttribute, "cudnnBackendGetAttribute", (flxi_dnn_desc, int, int, int64_t, int64_t *, void *)) \
    X(Finalize, "cudnnBackendFinalize", (flxi_dnn_desc))                                               \
    X(Execute, "cudnnBackendExecute", (flxi_dnn_handle, flxi_dnn_desc, flxi_dnn_desc))

typedef struct {
#define FLXI_DNN_MEMBER(name, symbol, parameters) int(*name) parameters;
    FLXI_CUDA_DNN(FLXI_DNN_MEMBER)
#undef FLXI_DNN_MEMBER
} flxi_cudnn;

/* ---- NCCL: messages between cards ---- */

typedef struct ncclComm *flxi_nccl_comm;

typedef struct { /* ncclUniqueId */
    char bytes[128];
} flxi_nccl_id;

/* ncclConfig_t as version 2.17 had it: NCCL reads as much as `size` says, and uses its defaults for later members. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
} flxi_nccl_config;

enum {
    FLXI_NCCL_MAGIC = (int)0xcafebeefu,
    FLXI_NCCL_CONFIG_VERSION = 21700,
    FLXI_NCCL_UNDEFINED = INT32_MIN,
    FLXI_NCCL_IN_PROGRESS = 7, /* ncclResult_t */
    FLXI_NCCL_U8 = 1,          /* ncclDataType_t */
};

/* X(name, symbol, parameters); the result is an int, 0 for success. */
#define FLXI_CUDA_NCCL(X)                                                                                           \
    X(GetVersion, "ncclGetVersion", (int *))                                                                        \
    X(GetUniqueId, "ncclGetUniqueId", (flxi_nccl_id *))                                                             \
    X(CommInitRankConfig, "ncclCommInitRankConfig", (flxi_nccl_comm *, int, flxi_nccl_id, int, flxi_nccl_config *)) \
    X(CommGetAsyncError, "ncclCommGetAsyncError", (flxi_nccl_comm, int *))                                          \
    X(CommFinalize, "ncclCommFinalize", (flxi_nccl_comm))                                                           \
    X(CommDestroy, "ncclCommDestroy", (flxi_nccl_comm))                                                             \
    X(CommAbort, "ncclCommAbort", (flxi_nccl_comm))                                                                 \
    X(GroupStart, "ncclGroupStart", (void))                                                                         \
    X(GroupEnd, "ncclGroupEnd", (void))                                                                             \
    X(Send, "ncclSend", (const void *, size_t, int, int, flxi_nccl_comm, flxi_cu_stream))                           \
    X(Recv, "ncclRecv", (void *, size_t, int, int, flxi_nccl_comm, flxi_cu_stream))

typedef struct {
#define FLXI_NCCL_MEMBER(name, symbol, parameters) int(*name) parameters;
    FLXI_CUDA_NCCL(FLXI_NCCL_MEMBER)
#undef FLXI_NCCL_MEMBER
} flxi_nccl;

/* ---- Loading ---- */

/* NULL, with an error that says why, when there is no such library, or it lacks something. The driver is initialised
   and has a card. */
const flxi_cuda *flxi_cuda_driver(flx_error *err);
const flxi_nvrtc *flxi_cuda_nvrtc(flx_error *err);
const flxi_cublaslt *flxi_cuda_lt(flx_error *err);
const flxi_cudnn *flxi_cuda_dnn(flx_error *err);
const flxi_nccl *flxi_cuda_nccl(flx_error *err);

/* DEVICE (OOM where card memory is exhausted) with the name of the result. */
flx_code flxi_cuda_fail(const flxi_cuda *cu, const char *what, flxi_cu_result result, flx_error *err);

/* Returns the error of a call of the driver that did not succeed. */
#define FLXI_CU_TRY(cu, err, name, ...)                              \
    do {                                                             \
        flxi_cu_result result_ = (cu)->name(__VA_ARGS__);            \
        if (result_ != FLXI_CU_SUCCESS)                              \
            return flxi_cuda_fail((cu), "cu" #name, result_, (err)); \
    } while (0)

#endif
