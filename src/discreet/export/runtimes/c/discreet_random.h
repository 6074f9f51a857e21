/* discreet_random.h: random words from a platform's source, tested whenever it is asked.
 *
 * A block of 32 bytes is asked of the source for every use, put to the health tests (repetition
 * count and adaptive proportion of SP 800-90B over all calls, and a few that find more) and used to
 * reseed an HMAC_DRBG (SP 800-90A, SHA-256), which gives the words. Define DISCREET_SOURCE_IS_DRBG
 * where the source is such a generator itself, kept by the platform: its words are used as they are.
 * By how often a sound source fails the tests see `python -m research.benchmarks.edge`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DISCREET_RANDOM_H
#define DISCREET_RANDOM_H

#include "discreet_sha256.h"

#define DISCREET_NO_RANDOMNESS (-2) /* the source is absent, fails, falls short or is not random */
#define DISCREET_BLOCK 8u           /* words asked of the source at a time */
enum {
    DISCREET_STARTUP = 64,   /* blocks tested, and taken for the seed, before the first word */
    DISCREET_COUNTS = 5,     /* of bits that differ: from 0, and from four neighbours */
    DISCREET_SPREAD = 56,    /* a count may be sqrt(56) standard deviations from the half */
    DISCREET_WINDOW = 16,    /* blocks over which counts and equal bytes are added up */
    DISCREET_MATCHES = 20,   /* cutoff of the adaptive proportion test, 512 bytes */
    DISCREET_REPETITIONS = 7 /* cutoff of the repetition count test, bytes */
};

/* What was computed from secrets and may be branched on, for tools that follow secrets. */
#ifndef DISCREET_PUBLIC
#define DISCREET_PUBLIC(value) (void)0
#endif

/* Fills a buffer from a cryptographic source; returns how many bytes it filled. */
typedef int (*discreet_rng)(void *context, void *out, size_t size);

typedef struct {
    discreet_rng rng;
    void *context;
    unsigned char key[DISCREET_DIGEST], value[DISCREET_DIGEST]; /* of the generator */
    uint32_t first[2], seen[2], last[DISCREET_BLOCK], ones[DISCREET_BLOCK], zeros[DISCREET_BLOCK];
    uint32_t counts[DISCREET_COUNTS], blocks, byte, run, wanted, matches, broken;
} discreet_source;

/* --- Arithmetic that takes the same time for all values -------------------------------------- */

/* Keeps compilers from finding out that a value is 0 or 1, and from branching on it. */
static inline uint32_t discreet_hidden(uint32_t value)
{
#if defined(__GNUC__)
    __asm__("" : "+r"(value));
#endif
    return value;
}

/* 1 if a < b, else 0. */
static inline uint32_t discreet_below(uint32_t a, uint32_t b)
{
    return discreet_hidden(((~a & b) | (~(a ^ b) & (a - b))) >> 31);
}

/* 1 if a == b, else 0. */
static inline uint32_t discreet_equal(uint32_t a, uint32_t b)
{
    uint32_t differs = a ^ b;
    return 1u - discreet_hidden((differs | (0u - differs)) >> 31);
}

/* a if choice is 1, b if it is 0. */
static inline uint32_t discreet_choose(uint32_t choice, uint32_t a, uint32_t b)
{
    return b ^ ((a ^ b) & (0u - choice));
}

static inline uint32_t discreet_bits(uint32_t word)
{
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0Fu;
    return word * 0x01010101u >> 24;
}

/* --- Health tests ---------------------------------------------------------------------------- */

/* Test the bytes of a word: runs of equal ones, and how often the window's first one comes. */
static inline uint32_t discreet_test_bytes(discreet_source *s, uint32_t word)
{
    uint32_t bad = 0, i;
    for (i = 0; i < 4; i++) {
        uint32_t byte = word >> (8 * i) & 255u;
        s->run = 1u + (s->run & (0u - discreet_equal(byte, s->byte)));
        s->byte = byte;
        s->matches += discreet_equal(byte, s->wanted);
        bad |= 1u - discreet_below(s->run, DISCREET_REPETITIONS);
    }
    return bad | (1u - discreet_below(s->matches, DISCREET_MATCHES));
}

/* Test counts of differing bits in `blocks` blocks: each must be near the half. */
static inline uint32_t discreet_test_counts(const uint32_t *counts, uint32_t blocks)
{
    static const uint32_t sizes[DISCREET_COUNTS] = {256, 248, 192, 224, 256};
    uint32_t bad = 0, i;
    for (i = 0; i < DISCREET_COUNTS; i++) {
        uint32_t bits = sizes[i] * blocks, excess = 2 * counts[i] - bits;
        bad |= discreet_below(DISCREET_SPREAD * bits, excess * excess); /* its square fits */
    }
    return bad;
}

/* Count, for a block, the ones and what differs between neighbours: bits, bytes, words, blocks. */
static inline uint32_t discreet_count(discreet_source *s, const uint32_t *block, uint32_t *counts)
{
    uint32_t pairs = 0, i, j;
    for (i = 0; i < DISCREET_BLOCK; i++) {
        uint32_t word = block[i];
        counts[0] += discreet_bits(word);
        counts[1] += discreet_bits((word ^ word >> 1) & 0x7FFFFFFFu);
        counts[2] += discreet_bits((word ^ word >> 8) & 0x00FFFFFFu);
        counts[3] += i ? discreet_bits(word ^ block[i - 1]) : 0;
        counts[4] += s->blocks ? discreet_bits(word ^ s->last[i]) : 16;
        s->ones[i] |= word;
        s->zeros[i] |= ~word;
        for (j = 0; j < i; j++)
            pairs += discreet_equal(word, block[j]);
    }
    return discreet_test_counts(counts, 1) | discreet_below(1, pairs);
}

/* At the end of a window of blocks: test what was added up, and begin again. */
static inline uint32_t discreet_test_windows(discreet_source *s)
{
    uint32_t bad = 0, i;
    if (s->blocks % DISCREET_WINDOW == 0) {
        bad = discreet_test_counts(s->counts, DISCREET_WINDOW);
        memset(s->counts, 0, sizeof s->counts);
    }
    if (s->blocks % DISCREET_STARTUP == 0) {
        for (i = 0; i < DISCREET_BLOCK; i++) /* every bit must have been 0 and 1 */
            bad |= 1u - discreet_equal(s->ones[i] & s->zeros[i], 0xFFFFFFFFu);
        memset(s->ones, 0, sizeof s->ones);
        memset(s->zeros, 0, sizeof s->zeros);
    }
    return bad;
}

/* Test a block. What a source repeats after any number of blocks is found in time: `seen` is taken
 * again after 1, 2, 4, ... of them. */
static inline uint32_t discreet_test(discreet_source *s, const uint32_t *block)
{
    uint32_t counts[DISCREET_COUNTS] = {0}, bad, i;
    const uint32_t again = discreet_equal(block[0], s->seen[0]) & discreet_equal(block[1], s->seen[1]);
    if (s->blocks % DISCREET_WINDOW == 0) {
        s->wanted = block[0] & 255u;
        s->matches = 0;
    }
    bad = again | discreet_count(s, block, counts);
    for (i = 0; i < DISCREET_BLOCK; i++)
        bad |= discreet_test_bytes(s, block[i]);
    for (i = 0; i < DISCREET_COUNTS; i++)
        s->counts[i] += counts[i];
    if (s->blocks == 0)
        memcpy(s->first, block, sizeof s->first);
    if ((s->blocks & (s->blocks - 1)) == 0)
        memcpy(s->seen, block, sizeof s->seen);
    memcpy(s->last, block, sizeof s->last);
    s->blocks++;
    return bad | discreet_test_windows(s);
}

/* Ask the source for a block. The zeros are for one that says it has filled what it has not. Once a
 * block has failed, nothing is taken until the next start. */
static inline int discreet_ask(discreet_source *s, uint32_t *block)
{
    memset(block, 0, 4 * DISCREET_BLOCK);
    if (s->rng == NULL || s->broken ||
        s->rng(s->context, block, 4 * DISCREET_BLOCK) != (int)(4 * DISCREET_BLOCK))
        return DISCREET_NO_RANDOMNESS;
    s->broken = discreet_test(s, block);
    DISCREET_PUBLIC(s->broken);
    return s->broken ? DISCREET_NO_RANDOMNESS : 0;
}

/* --- HMAC_DRBG ------------------------------------------------------------------------------- */

typedef struct {
    const void *data;
    size_t size;
} discreet_piece;

/* HMAC_DRBG_Update with the pieces of the provided data, of which there may be none. */
static inline void discreet_drbg_update(discreet_source *s, const discreet_piece *pieces, int count)
{
    discreet_hmac mac;
    unsigned char round;
    int i;
    for (round = 0; round < (count ? 2 : 1); round++) {
        discreet_hmac_start(&mac, s->key, sizeof s->key);
        discreet_hmac_add(&mac, s->value, sizeof s->value);
        discreet_hmac_add(&mac, &round, 1);
        for (i = 0; i < count; i++)
            discreet_hmac_add(&mac, pieces[i].data, pieces[i].size);
        discreet_hmac_end(&mac, s->key);
        discreet_hmac_start(&mac, s->key, sizeof s->key);
        discreet_hmac_add(&mac, s->value, sizeof s->value);
        discreet_hmac_end(&mac, s->value);
    }
}

/* Instantiate the generator from entropy, nonce and personalization. */
static inline void discreet_drbg_seed(discreet_source *s, const discreet_piece *pieces, int count)
{
    memset(s->key, 0, sizeof s->key);
    memset(s->value, 1, sizeof s->value);
    discreet_drbg_update(s, pieces, count);
}

static inline void discreet_drbg_generate(discreet_source *s, void *out, size_t size)
{
    unsigned char *to = (unsigned char *)out;
    discreet_hmac mac;
    while (size) {
        size_t now = size < sizeof s->value ? size : sizeof s->value;
        discreet_hmac_start(&mac, s->key, sizeof s->key);
        discreet_hmac_add(&mac, s->value, sizeof s->value);
        discreet_hmac_end(&mac, s->value);
        memcpy(to, s->value, now);
        to += now;
        size -= now;
    }
    discreet_drbg_update(s, NULL, 0);
}

/* --- What the rest of the runtime uses ------------------------------------------------------- */

/* Test the source and seed the generator: with the digest of all blocks, which is full of entropy
 * even if they are not, with one more as the nonce, and with what only this device knows. `before`:
 * how the blocks of the previous start began; a source that begins so again is refused. */
static inline int discreet_source_start(discreet_source *s, discreet_rng rng, void *context,
                                        const uint32_t *before, const void *own, size_t own_size)
{
    uint32_t block[DISCREET_BLOCK], i;
    unsigned char digest[DISCREET_DIGEST];
    discreet_sha256 hash;
    discreet_piece pieces[3];
    memset(s, 0, sizeof *s);
    s->rng = rng;
    s->context = context;
    memcpy(s->seen, before, sizeof s->seen);
    discreet_sha256_start(&hash);
    for (i = 0; i < DISCREET_STARTUP; i++) {
        if (discreet_ask(s, block))
            return DISCREET_NO_RANDOMNESS;
        discreet_sha256_add(&hash, block, sizeof block);
    }
#ifdef DISCREET_SOURCE_IS_DRBG
    (void)digest;
    (void)pieces;
    (void)own;
    (void)own_size;
#else
    discreet_sha256_end(&hash, digest);
    if (discreet_ask(s, block))
        return DISCREET_NO_RANDOMNESS;
    pieces[0].data = digest;
    pieces[0].size = sizeof digest;
    pieces[1].data = block;
    pieces[1].size = sizeof block;
    pieces[2].data = own;
    pieces[2].size = own_size;
    discreet_drbg_seed(s, pieces, 3);
#endif
    return 0;
}

/* Give random words, of which the source vouched for every block just now. */
static inline int discreet_random(discreet_source *s, uint32_t *out, uint32_t count)
{
    uint32_t block[DISCREET_BLOCK];
#ifdef DISCREET_SOURCE_IS_DRBG
    while (count) {
        uint32_t now = count < DISCREET_BLOCK ? count : DISCREET_BLOCK;
        if (discreet_ask(s, block))
            return DISCREET_NO_RANDOMNESS;
        memcpy(out, block, 4u * (size_t)now);
        out += now;
        count -= now;
    }
#else
    discreet_piece fresh;
    if (discreet_ask(s, block))
        return DISCREET_NO_RANDOMNESS;
    fresh.data = block;
    fresh.size = sizeof block;
    discreet_drbg_update(s, &fresh, 1);
    discreet_drbg_generate(s, out, 4u * (size_t)count);
#endif
    return 0;
}

#endif
