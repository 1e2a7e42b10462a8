/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_manual.c: docs/stablehlo.md lists the operations that have a rule, no more and no less. */
#include "test.h"

#include "base/context.h"
#include "base/strbuf.h"
#include "stablehlo/operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line for each dialect: | `chlo` | `acos` `acosh` … | */
static void list_operations(flxi_strbuf *out)
{
    size_t dialect = 0; /* length of the name of the one being listed */
    const char *last = "";
    flxi_add_text(out, "\n| dialect | operations |\n|---|---|\n");
    for (size_t i = 0; i < flxi_hlo_num_operations; i++) {
        const char *name = flxi_hlo_operations[i].name;
        size_t n = strcspn(name, ".");
        if (!flxi_hlo_operations[i].import || flxi_hlo_operations[i].import == flxi_hlo_import_no_other_process)
            continue; /* only read, or one of the limits that the manual lists */
        if (n != dialect || strncmp(name, last, n) != 0)
            flxi_addf(out, "%s| `%.*s` |", dialect ? " |\n" : "", (int)n, name);
        flxi_addf(out, " `%s`", name + n + 1);
        dialect = n;
        last = name;
    }
    flxi_add_text(out, " |\n\n");
}

static char *read_manual(void)
{
    FILE *f = fopen(FLX_SOURCE_DIR "/docs/stablehlo.md", "rb");
    CHECK_MSG(f != NULL, "docs/stablehlo.md is missing");
    char *text = calloc(1, 1 << 20);
    CHECK(text != NULL);
    CHECK(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

TEST(stablehlo_manual_lists_the_operations)
{
    static const char begin_mark[] = "<!-- operations -->\n";
    flx_context *ctx = flx_context_new(NULL);
    flxi_strbuf wanted;
    flxi_strbuf_init(&wanted, &ctx->mem);
    list_operations(&wanted);
    char *manual = read_manual();
    char *begin = strstr(manual, begin_mark);
    char *end = strstr(manual, "<!-- end -->");
    CHECK_MSG(begin && end && begin < end, "docs/stablehlo.md has no section for operations");
    *end = 0;
    CHECK_EQ_STR(begin + sizeof begin_mark - 1, wanted.at);
    free(manual);
    flxi_strbuf_free(&wanted);
    flx_context_free(ctx);
}
