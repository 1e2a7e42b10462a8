/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_api.h: the part of OpenCL that is used here, from a library that is looked for at run time. No header of
   OpenCL is needed to build, and no library to run what does not use it. Names and values are those of the standard.
   Kernels of the user need OpenCL 1.2; graphs need memory with addresses, which OpenCL 2.0 has. */
#ifndef FLXI_OPENCL_API_H
#define FLXI_OPENCL_API_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cl_platform_s *cl_platform_id;
typedef struct cl_device_s *cl_device_id;
typedef struct cl_context_s *cl_context;
typedef struct cl_queue_s *cl_command_queue;
typedef struct cl_memory_s *cl_mem;
typedef struct cl_program_s *cl_program;
typedef struct cl_kernel_s *cl_kernel;
typedef struct cl_event_s *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong, cl_bitfield;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_NAME = 0x102B,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_MEM_READ_WRITE = 1,
    CL_MEM_READ_ONLY = 4,
    CL_MEM_COPY_HOST_PTR = 32,
    CL_DEVICE_SVM_COARSE_GRAIN_BUFFER = 1,
    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)

/* X(result, name, parameters) */
#define FLXI_OPENCL_FUNCTIONS(X)                                                                                      \
    X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                               \
    X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                      \
    X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                     \
    X(cl_context, clCreateContext,                                                                                    \
      (const intptr_t *, cl_uint, const cl_device_id *, void (*)(const char *, const void *, size_t, void *), void *, \
       cl_int *))                                                                                                     \
    X(cl_int, clReleaseContext, (cl_context))                                                                         \
    X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                      \
    X(cl_int, clReleaseCommandQueue, (cl_command_queue))                                                              \
    X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))          \
    X(cl_int, clBuildProgram,                                                                                         \
      (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *))                \
    X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                   \
    X(cl_program, clCreateProgramWithBinary,                                                                          \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))        \
    X(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                      \
    X(cl_int, clReleaseProgram, (cl_program))                                                                         \
    X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                                \
    X(cl_int, clReleaseKernel, (cl_kernel))                                                                           \
    X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                             \
    X(cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                    \
    X(cl_int, clReleaseMemObject, (cl_mem))                                                                           \
    X(cl_int, clEnqueueWriteBuffer,                                                                                   \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))       \
    X(cl_int, clEnqueueReadBuffer,                                                                                    \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))             \
    X(cl_int, clEnqueueNDRangeKernel,                                                                                 \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,                 \
       const cl_event *, cl_event *))                                                                                 \
    X(cl_int, clFinish, (cl_command_queue))

/* Of OpenCL 2.0; NULL where the library has none. */
#define FLXI_OPENCL_MEMORY_FUNCTIONS(X)                                                                 \
    X(void *, clSVMAlloc, (cl_context, cl_bitfield, size_t, cl_uint))                                   \
    X(void, clSVMFree, (cl_context, void *))                                                            \
    X(cl_int, clSetKernelArgSVMPointer, (cl_kernel, cl_uint, const void *))                             \
    X(cl_int, clEnqueueSVMMemcpy,                                                                       \
      (cl_command_queue, cl_uint, void *, const void *, size_t, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, clEnqueueSVMMemFill,                                                                      \
      (cl_command_queue, void *, const void *, size_t, size_t, cl_uint, const cl_event *, cl_event *))

typedef struct {
    void *library;
#define FLXI_OPENCL_MEMBER(result, name, parameters) result(*name) parameters;
    FLXI_OPENCL_FUNCTIONS(FLXI_OPENCL_MEMBER)
    FLXI_OPENCL_MEMORY_FUNCTIONS(FLXI_OPENCL_MEMBER)
#undef FLXI_OPENCL_MEMBER
} flxi_opencl;

/* DEVICE when there is no libOpenCL, or it lacks something. */
flx_code flxi_opencl_load(flxi_opencl *cl, flx_error *err);
void flxi_opencl_unload(flxi_opencl *cl);

#endif
