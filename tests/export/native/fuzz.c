/* Opens mutated bundles and draws from those that open. argv: count, seed; bundles on stdin.
 *
 * Prints how many were tried, refused and opened after their checksum was mended, and ends with
 * 5 if one with a wrong checksum was opened, or a symbol out of range came out. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet.h"

enum { MOST = 64 };
static unsigned char *bases[MOST];
static uint32_t sizes[MOST], n_bases;
static uint64_t state = 88172645463325252u;

static uint32_t chance(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static int source(void *context, void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t i;
    (void)context;
    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char)chance(256);
    return (int)size;
}

static int load(void *context, void *record, size_t size)
{
    return chance(2) ? 0 : source(context, record, size);
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    (void)record;
    return (int)size;
}

static void change(unsigned char *data, uint32_t size)
{
    static const uint32_t extremes[] = {0, 1, 0xFFFFFFFFu, 0xFFFFFFFEu, 0x80000000u, 255, 256, 257};
    uint32_t at = chance(size), word;
    switch (chance(4)) {
    case 0:
        data[at] ^= (unsigned char)(1u << chance(8));
        break;
    case 1:
        data[at] = (unsigned char)chance(256);
        break;
    case 2: /* a word of the head, where lengths stand, or any other */
        at = chance(2) && size > 68 ? 4 * chance(17) : at & ~3u;
        word = chance(2) ? extremes[chance(8)] : chance(0xFFFFFFFFu) >> chance(32);
        memcpy(data + at, &word, size - at < 4 ? size - at : 4);
        break;
    default: {
        uint32_t from = chance(n_bases), piece = chance(40) + 1, start = chance(sizes[from]);
        if (piece > sizes[from] - start)
            piece = sizes[from] - start;
        memcpy(data + at, bases[from] + start, piece < size - at ? piece : size - at);
    }
    }
}

static void mend(unsigned char *data, uint32_t size)
{
    uint32_t words = size / 4, crc;
    if (words < 3)
        return;
    memcpy(data + 4, &words, 4);
    crc = discreet_crc((const uint32_t *)(void *)data, words - 1);
    memcpy(data + 4 * (words - 1), &crc, 4);
}

/* Everything that can be done with an opened bundle. */
static int use(const uint32_t *words, uint32_t size)
{
    const uint32_t before[2] = {0, 0};
    discreet_sensor sensor;
    discreet_source generator;
    discreet_table t;
    uint32_t rows[9], i;
    if (discreet_open(&t, words, size))
        return 0;
    rows[0] = discreet_bin(&t, 0.25);
    rows[1] = discreet_bin(&t, -1e300);
    rows[2] = discreet_category(&t, "open", 5);
    rows[3] = discreet_category(&t, DISCREET_NO_TEXT, 1);
    rows[4] = discreet_category_number(&t, 3.0);
    rows[5] = discreet_code(&t, 2);
    rows[6] = discreet_code(&t, -1);
    rows[7] = discreet_unreadable(&t);
    rows[8] = 0xFFFFFFFFu;
    for (i = 0; i < 8; i++)
        if (rows[i] >= t.rows)
            exit(5);
    if (discreet_source_start(&generator, source, NULL, before, NULL, 0))
        exit(5);
    for (i = 0; i < 9; i++) {
        int symbol = discreet_draw(&t, &generator, rows[i]);
        if (symbol < 0 || (uint32_t)symbol > t.columns)
            exit(5);
    }
    if (discreet_start(&sensor, words, size, source, load, store, NULL, 1) == 0)
        for (i = 0; i < 9; i++) {
            int symbol = discreet_release(&sensor, rows[i], chance(200000));
            if (symbol < 0 || (uint32_t)symbol > t.columns)
                exit(5);
            discreet_delivered(&sensor);
        }
    return 1;
}

int main(int count, char **arguments)
{
    uint32_t tried = count > 1 ? (uint32_t)atol(arguments[1]) : 1000, i, k, refused = 0, opened = 0;
    state += count > 2 ? (uint64_t)atol(arguments[2]) : 0;
    while (n_bases < MOST && fread(&sizes[n_bases], 4, 1, stdin) == 1) {
        bases[n_bases] = malloc(sizes[n_bases]);
        if (bases[n_bases] == NULL || fread(bases[n_bases], 1, sizes[n_bases], stdin) == 0)
            return 3;
        n_bases++;
    }
    for (i = 0; i < tried; i++) {
        uint32_t base = chance(n_bases), size = sizes[base], keep;
        int mended = (int)chance(2);
        unsigned char *data;
        if (chance(4) == 0)
            size = chance(size + 40);
        /* exactly as long as it says, so that one byte too far is seen */
        data = malloc(size ? size : 1);
        if (data == NULL)
            return 3;
        keep = size < sizes[base] ? size : sizes[base];
        memcpy(data, bases[base], keep);
        memset(data + keep, 0, size - keep);
        for (k = chance(8); size && k < 8; k++)
            change(data, size);
        if (mended)
            mend(data, size);
        if (use((const uint32_t *)(void *)data, size)) {
            opened++;
            if (!mended && (size != sizes[base] || memcmp(data, bases[base], size) != 0))
                return 5;
        } else {
            refused++;
        }
        free(data);
    }
    for (i = 0; i < n_bases; i++)
        free(bases[i]);
    printf("%u tried, %u refused, %u opened\n", tried, refused, opened);
    return 0;
}
