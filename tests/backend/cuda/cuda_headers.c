/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_headers.c: what cuda_api.h declares is what CUDA's headers declare. Where these are installed, a C compiler
   reads both: numbers, sizes and offsets must be equal. Libraries that are there have every function. */
#include "backend/cuda/cuda_api.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char program[] =
    "#include <cuda.h>\n#include <nvrtc.h>\n#include <cublasLt.h>\n"
    "#include \"backend/cuda/cuda_api.h\"\n"
    "#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)\n"
    "SAME(FLXI_CU_SUCCESS, CUDA_SUCCESS);\nSAME(FLXI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);\n"
    "SAME(FLXI_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);\n"
    "SAME(FLXI_CU_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);\n"
    "SAME(FLXI_CU_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);\n"
    "SAME(FLXI_CU_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);\n"
    "SAME(FLXI_CU_FUNC_MOST_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);\n"
    "SAME(FLXI_CU_HOST_MAPPED, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);\n"
    "SAME(FLXI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);\n"
    "SAME(FLXI_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);\n"
    "SAME(FLXI_CU_SET_DEPENDENCIES, CU_STREAM_SET_CAPTURE_DEPENDENCIES);\n"
    "SAME(FLXI_LT_R_32F, CUDA_R_32F);\nSAME(FLXI_LT_R_64F, CUDA_R_64F);\nSAME(FLXI_LT_R_16F, CUDA_R_16F);\n"
    "SAME(FLXI_LT_R_16BF, CUDA_R_16BF);\nSAME(FLXI_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);\n"
    "SAME(FLXI_LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);\nSAME(FLXI_LT_OP_N, CUBLAS_OP_N);\nSAME(FLXI_LT_OP_T, "
    "CUBLAS_OP_T);\n"
    "SAME(FLXI_LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);\nSAME(FLXI_LT_DESC_TRANSB, "
    "CUBLASLT_MATMUL_DESC_TRANSB);\n"
    "SAME(FLXI_LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);\n"
    "SAME(FLXI_LT_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);\n"
    "SAME(FLXI_LT_PREF_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);\n"
    "SAME(FLXI_LT_PREF_MIN_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);\n"
    "SAME(FLXI_LT_PREF_MIN_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);\n"
    "SAME(sizeof(flxi_lt_heuristic), sizeof(cublasLtMatmulHeuristicResult_t));\n"
    "SAME(sizeof(((flxi_lt_heuristic *)0)->algo), sizeof(cublasLtMatmulAlgo_t));\n"
    "SAME(offsetof(flxi_lt_heuristic, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));\n"
    "SAME(offsetof(flxi_lt_heuristic, state), offsetof(cublasLtMatmulHeuristicResult_t, state));\n"
    "SAME(FLXI_CU_NOT_READY, CUDA_ERROR_NOT_READY);\n"
    "#if __has_include(<nccl.h>)\n#include <nccl.h>\n"
    "SAME(sizeof(flxi_nccl_id), sizeof(ncclUniqueId));\nSAME(FLXI_NCCL_IN_PROGRESS, ncclInProgress);\n"
    "SAME(FLXI_NCCL_U8, ncclUint8);\nSAME(FLXI_NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);\n"
    "SAME(offsetof(flxi_nccl_config, blocking), offsetof(ncclConfig_t, blocking));\n"
    "SAME(offsetof(flxi_nccl_config, net_name), offsetof(ncclConfig_t, netName));\n"
    "SAME(offsetof(flxi_nccl_config, split_share), offsetof(ncclConfig_t, splitShare));\n"
    "#endif\n"
    "SAME(sizeof(flxi_cu_address), sizeof(CUdeviceptr));\nSAME(sizeof(flxi_cu_device), sizeof(CUdevice));\n";

static bool has_header(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/cublasLt.h", folder);
    return access(path, R_OK) == 0;
}

TEST(cuda_headers_agree_with_ours)
{
    static const char *const folders[] = {"/usr/local/cuda/include", "/usr/include"};
    const char *folder = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !folder; i++)
        folder = has_header(folders[i]) ? folders[i] : NULL;
    if (!folder) {
        printf("there are no headers of CUDA\n");
        return;
    }
    char command[1500], source[340];
    snprintf(source, sizeof source, "%s/agree.c", test_temp_dir());
    FILE *f = fopen(source, "w");
    CHECK(f);
    fputs(program, f);
    fclose(f);
    snprintf(command, sizeof command,
             "cc -std=gnu17 -fsyntax-only -I'%s' -I'" FLX_SOURCE_DIR "/src' -I'" FLX_SOURCE_DIR "/include' '%s'",
             folder, source);
    CHECK_MSG(system(command) == 0, "%s", command);
}

TEST(cuda_libraries_load_or_say_why_not)
{
    flx_error err = {0};
    CHECK(flxi_cuda_driver(&err) || (err.code == FLX_E_DEVICE && strstr(err.message, "libcuda.so.1")) ||
          strstr(err.message, "card") || strstr(err.message, "cuInit"));
    err = (flx_error){0};
    CHECK(flxi_cuda_nvrtc(&err) || (err.code == FLX_E_DEVICE && strstr(err.message, "libnvrtc")));
    err = (flx_error){0};
    CHECK(flxi_cuda_lt(&err) || (err.code == FLX_E_DEVICE && strstr(err.message, "libcublasLt")));
    err = (flx_error){0};
    CHECK(flxi_cuda_nccl(&err) || (err.code == FLX_E_DEVICE && strstr(err.message, "NCCL")) ||
          strstr(err.message, "libnccl"));
}
