/* SPDX-License-Identifier: Apache-2.0 */
/* Uses an installed Fluxion: prints the version of the library it runs with, if that of its headers is the same. */
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "empty");
    flx_code code = flx_graph_error(g, NULL);
    flx_graph_release(g);
    flx_context_free(ctx);
    puts(flx_version());
    return code != FLX_OK || strcmp(flx_version(), FLX_VERSION) != 0;
}
