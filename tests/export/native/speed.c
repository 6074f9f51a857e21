/* Nanoseconds per reading of discreet_draw with AES-128-CTR words and with PCG64 words.
 *
 * The caller supplies the source: here counter mode keyed by the operating system, with the
 * processor's AES instructions. PCG64 is no source for a sensor; it is the yardstick. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <wmmintrin.h>

#include "bundle.h"

enum { READINGS = 1 << 20, LANES = 8 };
static __m128i keys[11], counter;

#define EXPAND(i, constant)                                                                   \
    do {                                                                                      \
        __m128i k = keys[i - 1], g = _mm_aeskeygenassist_si128(k, constant);                  \
        k = _mm_xor_si128(k, _mm_slli_si128(k, 4));                                           \
        k = _mm_xor_si128(k, _mm_slli_si128(k, 8));                                           \
        keys[i] = _mm_xor_si128(k, _mm_shuffle_epi32(g, 0xFF));                               \
    } while (0)

static int key_stream(void)
{
    if (getrandom(keys, 16, 0) != 16 || getrandom(&counter, 16, 0) != 16)
        return 0;
    EXPAND(1, 0x01);
    EXPAND(2, 0x02);
    EXPAND(3, 0x04);
    EXPAND(4, 0x08);
    EXPAND(5, 0x10);
    EXPAND(6, 0x20);
    EXPAND(7, 0x40);
    EXPAND(8, 0x80);
    EXPAND(9, 0x1B);
    EXPAND(10, 0x36);
    return 1;
}

static int aes(void *out, size_t size)
{
    unsigned char *bytes = out;
    __m128i count = counter; /* a copy: `bytes` might point to anything */
    size_t done;
    int i, round;
    for (done = 0; done < size; done += 16 * LANES) {
        __m128i x[LANES];
        size_t left = size - done < 16 * LANES ? size - done : 16 * LANES;
        for (i = 0; i < LANES; i++) {
            count = _mm_add_epi64(count, _mm_set_epi64x(0, 1));
            x[i] = _mm_xor_si128(count, keys[0]);
        }
        for (round = 1; round < 10; round++)
            for (i = 0; i < LANES; i++)
                x[i] = _mm_aesenc_si128(x[i], keys[round]);
        for (i = 0; i < LANES; i++)
            x[i] = _mm_aesenclast_si128(x[i], keys[10]);
        memcpy(bytes + done, x, left);
    }
    counter = count;
    return (int)size;
}

static unsigned __int128 pcg_state = 1;

static int pcg64(void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t done;
    unsigned __int128 state = pcg_state;
    const unsigned __int128 multiplier =
        (unsigned __int128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    for (done = 0; done < size; done += 8) {
        uint64_t folded, word;
        unsigned turn = (unsigned)(state >> 122);
        folded = (uint64_t)(state >> 64) ^ (uint64_t)state;
        word = folded >> turn | folded << (-turn & 63);
        state = state * multiplier + 0xDA3E39CB94B95BDBu;
        memcpy(bytes + done, &word, size - done < 8 ? size - done : 8);
    }
    pcg_state = state;
    return (int)size;
}

static int system_source(void *out, size_t size)
{
    return (int)getrandom(out, size, 0);
}

static double seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at); /* not what others use of the machine */
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static double once(const discreet_table *t, discreet_rng rng, const uint32_t *rows, unsigned char *out)
{
    double start = seconds();
    if (discreet_draw(t, rng, rows, READINGS, out))
        exit(5);
    return 1e9 * (seconds() - start) / READINGS;
}

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 11, i;
    uint32_t *rows = malloc(4 * READINGS);
    unsigned char *out = malloc(READINGS);
    discreet_table t;
    if (rows == NULL || out == NULL || !key_stream() ||
        discreet_open(&t, bundle_bundle, sizeof bundle_bundle))
        return 4;
    for (i = 0; i < READINGS; i++)
        rows[i] = (uint32_t)((unsigned)i * 2654435761u >> 16) % (t.rows - 1);
    for (i = 0; i < rounds; i++) {
        double a = once(&t, aes, rows, out), p = once(&t, pcg64, rows, out);
        printf("%.3f %.3f %.3f\n", a, p, once(&t, system_source, rows, out));
    }
    free(rows);
    free(out);
    return 0;
}
