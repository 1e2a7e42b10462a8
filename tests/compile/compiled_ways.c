/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_ways.c: see compiled_ways.h. */
#include "compile/compiled_ways.h"

#include "backend/cpu/jit/c_compiler.h"
#include "backend/devices.h"
#include "backend/toy/toy.h"
#include "base/hash.h"
#include "emit/opencl_here.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    flx_compile_options o;
    const char *compiler;
} ways[] = {
#define WAY_ROW(name, threads_, flags_, level, compiler, device_) \
    {#name, {.threads = threads_, .flags = flags_, .optimisation = level, .device = device_}, compiler},
    COMPILED_WAYS(WAY_ROW)
#undef WAY_ROW
};

static bool is_compiler_set, is_toy_added;

flx_compile_options way_begin(size_t way)
{
    flxi_cc cc;
    flx_error err = {0};
    is_toy_added = way == WAY_toy;
    if (is_toy_added)
        CHECK(flxi_device_add(&toy_device));
    is_compiler_set = ways[way].compiler && !getenv("FLX_CC");
    if (is_compiler_set)
        setenv("FLX_CC", ways[way].compiler, 1);
    if (is_compiler_set && flxi_cc_find(&cc, &err) != FLX_OK) {
        unsetenv("FLX_CC");
        is_compiler_set = false;
    }
    return ways[way].o;
}

void way_end(void)
{
    if (is_compiler_set)
        unsetenv("FLX_CC");
    is_compiler_set = false;
    if (is_toy_added)
        flxi_device_remove(&toy_device);
    is_toy_added = false;
}

const char *way_name(size_t way)
{
    return ways[way].name;
}

size_t way_count(void)
{
    return flx_device_check("cuda", NULL) == FLX_OK ? WAY_opencl : WAY_cuda;
}

bool way_is_here(size_t way)
{
    return way == WAY_opencl ? opencl_here() : way < way_count();
}

bool way_takes(size_t way, const char *case_name)
{
    int64_t only = effort(EFFORT_compiled_way);
    size_t count = way_count();
    if (only > 0)
        return (size_t)only == way + 1 && way_is_here(way);
    return (effort(EFFORT_compiled_all) && way_is_here(way)) ||
           (flxi_hash_text(test_seed(), case_name) >> 32) % count == way;
}

bool case_turn(unsigned share)
{
    static uint64_t turn, seed;
    int64_t n = effort(EFFORT_compiled_share);
    if (seed != test_seed()) { /* another test: its cases do not depend on which tests came before */
        seed = test_seed();
        turn = 0;
    }
    return effort(EFFORT_compiled_all) || (turn++ + seed) % (share * (uint64_t)(n > 0 ? n : 1)) == 0;
}
