/* discreet_sha256.h: SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), without allocation.
 *
 * Nothing branches on what is hashed and nothing is looked up by it: the time tells the length only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_SHA256_H
#define DISCREET_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DISCREET_DIGEST = 32 };

typedef struct {
    uint32_t state[8], length; /* length: bytes so far, fewer than 2^29 */
    unsigned char block[64];
} discreet_sha256;

typedef struct {
    discreet_sha256 inner;
    unsigned char key[64];
} discreet_hmac;

static inline uint32_t discreet_turn_right(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static inline void discreet_sha256_block(discreet_sha256 *h)
{
    static const uint32_t round_words[64] = {
        0x428A2F98u, 0x71374491u, 0xB5C0FBCFu, 0xE9B5DBA5u, 0x3956C25Bu, 0x59F111F1u, 0x923F82A4u,
        0xAB1C5ED5u, 0xD807AA98u, 0x12835B01u, 0x243185BEu, 0x550C7DC3u, 0x72BE5D74u, 0x80DEB1FEu,
        0x9BDC06A7u, 0xC19BF174u, 0xE49B69C1u, 0xEFBE4786u, 0x0FC19DC6u, 0x240CA1CCu, 0x2DE92C6Fu,
        0x4A7484AAu, 0x5CB0A9DCu, 0x76F988DAu, 0x983E5152u, 0xA831C66Du, 0xB00327C8u, 0xBF597FC7u,
        0xC6E00BF3u, 0xD5A79147u, 0x06CA6351u, 0x14292967u, 0x27B70A85u, 0x2E1B2138u, 0x4D2C6DFCu,
        0x53380D13u, 0x650A7354u, 0x766A0ABBu, 0x81C2C92Eu, 0x92722C85u, 0xA2BFE8A1u, 0xA81A664Bu,
        0xC24B8B70u, 0xC76C51A3u, 0xD192E819u, 0xD6990624u, 0xF40E3585u, 0x106AA070u, 0x19A4C116u,
        0x1E376C08u, 0x2748774Cu, 0x34B0BCB5u, 0x391C0CB3u, 0x4ED8AA4Au, 0x5B9CCA4Fu, 0x682E6FF3u,
        0x748F82EEu, 0x78A5636Fu, 0x84C87814u, 0x8CC70208u, 0x90BEFFFAu, 0xA4506CEBu, 0xBEF9A3F7u,
        0xC67178F2u};
    uint32_t w[16], s[8], i;
    memcpy(s, h->state, sizeof s);
    for (i = 0; i < 64; i++) {
        const unsigned char *from = h->block + 4 * (i & 15u);
        uint32_t add, t, a = w[(i + 1) & 15u], b = w[(i + 14) & 15u];
        if (i < 16)
            w[i] = (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 |
                   from[3];
        else
            w[i & 15u] += (discreet_turn_right(a, 7) ^ discreet_turn_right(a, 18) ^ a >> 3) +
                          (discreet_turn_right(b, 17) ^ discreet_turn_right(b, 19) ^ b >> 10) +
                          w[(i + 9) & 15u];
        add = discreet_turn_right(s[4], 6) ^ discreet_turn_right(s[4], 11) ^
              discreet_turn_right(s[4], 25);
        t = s[7] + add + (s[6] ^ (s[4] & (s[5] ^ s[6]))) + round_words[i] + w[i & 15u];
        add = discreet_turn_right(s[0], 2) ^ discreet_turn_right(s[0], 13) ^
              discreet_turn_right(s[0], 22);
        add += (s[0] & s[1]) | (s[2] & (s[0] | s[1]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + add;
    }
    for (i = 0; i < 8; i++)
        h->state[i] += s[i];
}

static inline void discreet_sha256_start(discreet_sha256 *h)
{
    static const uint32_t start[8] = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                                      0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};
    memcpy(h->state, start, sizeof start);
    h->length = 0;
}

static inline void discreet_sha256_add(discreet_sha256 *h, const void *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    while (size--) {
        h->block[h->length++ & 63u] = *bytes++;
        if ((h->length & 63u) == 0)
            discreet_sha256_block(h);
    }
}

static inline void discreet_sha256_end(discreet_sha256 *h, unsigned char *digest)
{
    static const unsigned char padding[64] = {0x80};
    const uint32_t bits = h->length * 8u;
    unsigned char tail[8] = {0};
    uint32_t i;
    for (i = 0; i < 4; i++)
        tail[4 + i] = (unsigned char)(bits >> (24 - 8 * i));
    discreet_sha256_add(h, padding, 1 + ((119u - (h->length & 63u)) & 63u));
    discreet_sha256_add(h, tail, sizeof tail);
    for (i = 0; i < DISCREET_DIGEST; i++)
        digest[i] = (unsigned char)(h->state[i >> 2] >> (24 - 8 * (i & 3u)));
}

static inline void discreet_hmac_pad(discreet_hmac *m, unsigned char with)
{
    uint32_t i;
    for (i = 0; i < sizeof m->key; i++)
        m->key[i] ^= with;
    discreet_sha256_start(&m->inner);
    discreet_sha256_add(&m->inner, m->key, sizeof m->key);
}

/* `size`: at most 64 bytes, as all keys here are. */
static inline void discreet_hmac_start(discreet_hmac *m, const void *key, size_t size)
{
    memset(m->key, 0, sizeof m->key);
    memcpy(m->key, key, size < sizeof m->key ? size : sizeof m->key);
    discreet_hmac_pad(m, 0x36);
}

static inline void discreet_hmac_add(discreet_hmac *m, const void *data, size_t size)
{
    discreet_sha256_add(&m->inner, data, size);
}

static inline void discreet_hmac_end(discreet_hmac *m, unsigned char *digest)
{
    unsigned char inner[DISCREET_DIGEST];
    discreet_sha256_end(&m->inner, inner);
    discreet_hmac_pad(m, 0x36 ^ 0x5C);
    discreet_sha256_add(&m->inner, inner, sizeof inner);
    discreet_sha256_end(&m->inner, digest);
}

#endif
