/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_api.c: see opencl_api.h. */
#include "backend/opencl/opencl_api.h"

#include <dlfcn.h>

static const char hint[] = "install an OpenCL driver (on Debian pocl-opencl-icd runs on any CPU), or use device cpu";

/* It stays in the process: loaders lose their lists of drivers when they are unloaded, and drivers cannot be. */
flx_code flxi_opencl_load(flxi_opencl *cl, flx_error *err)
{
    *cl = (flxi_opencl){.library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!cl->library)
        return flxi_fail_hint(err, FLX_E_DEVICE, hint, "there is no OpenCL here: libOpenCL.so.1 cannot be loaded");
#define FLXI_OPENCL_FIND(result, name, parameters)                                      \
    if (!(*(void **)&cl->name = dlsym(cl->library, #name))) {                           \
        flxi_opencl_unload(cl);                                                         \
        return flxi_fail_hint(err, FLX_E_DEVICE, hint, "libOpenCL.so.1 has no " #name); \
    }
    FLXI_OPENCL_FUNCTIONS(FLXI_OPENCL_FIND)
#undef FLXI_OPENCL_FIND
#define FLXI_OPENCL_FIND(result, name, parameters) *(void **)&cl->name = dlsym(cl->library, #name);
    FLXI_OPENCL_MEMORY_FUNCTIONS(FLXI_OPENCL_FIND)
#undef FLXI_OPENCL_FIND
    return FLX_OK;
}

void flxi_opencl_unload(flxi_opencl *cl)
{
    if (cl->library)
        dlclose(cl->library);
    *cl = (flxi_opencl){0};
}
