/* SPDX-License-Identifier: Apache-2.0 */
/* base_sha256.c: SHA-256 against the vectors of its standard, in pieces of every size. */
#include "test.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

static const char *hex_of(const void *data, size_t n)
{
    static char text[FLXI_SHA256_TEXT];
    unsigned char digest[FLXI_SHA256_BYTES];
    flxi_sha256_of(data, n, digest);
    flxi_sha256_text(digest, text);
    return text;
}

TEST(sha256_gives_the_published_digests)
{
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqr"
         "stu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        flxi_sha256_plain = i % 2;
        CHECK_EQ_STR(hex_of(rows[i / 2].text, strlen(rows[i / 2].text)), rows[i / 2].digest);
    }
    flxi_sha256_plain = false;
    char *a = malloc(1000000);
    CHECK(a);
    memset(a, 'a', 1000000);
    CHECK_EQ_STR(hex_of(a, 1000000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(a);
}

TEST(sha256_in_pieces_is_the_same)
{
    unsigned char data[300], whole[FLXI_SHA256_BYTES], digest[FLXI_SHA256_BYTES];
    uint64_t state = test_seed();
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)test_random(&state);
    for (size_t n = 0; n <= sizeof data; n++) {
        flxi_sha256_plain = true;
        flxi_sha256_of(data, n, whole);
        flxi_sha256_plain = false;
        for (size_t piece = 1; piece < 140; piece += piece < 4 ? 1 : 31) {
            flxi_sha256 h;
            flxi_sha256_init(&h);
            for (size_t at = 0; at < n; at += piece)
                flxi_sha256_add(&h, data + at, n - at < piece ? n - at : piece);
            flxi_sha256_end(&h, digest);
            test_fail_context("%zu bytes in pieces of %zu", n, piece);
            CHECK(memcmp(whole, digest, sizeof digest) == 0);
        }
    }
}

/* ("ab", "c") and ("a", "bc") are different lists. */
TEST(sha256_fields_keep_their_borders)
{
    unsigned char digests[2][FLXI_SHA256_BYTES];
    for (size_t i = 0; i < 2; i++) {
        flxi_sha256 h;
        flxi_sha256_init(&h);
        flxi_sha256_add_field(&h, "abc", 1 + i);
        flxi_sha256_add_field(&h, &"abc"[1 + i], 2 - i);
        flxi_sha256_end(&h, digests[i]);
    }
    CHECK(memcmp(digests[0], digests[1], FLXI_SHA256_BYTES) != 0);
}
