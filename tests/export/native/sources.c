/* Offers bad sources of randomness to discreet.h and prints, for each, what it answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

static int bad, bit;
static long calls, spoiled_from;

/* A sound source, for the rest of what a bad one gives: good enough to pass a start-up check. */
static int sound(void *out, size_t size)
{
    static uint64_t state = 0x9E3779B97F4A7C15u;
    unsigned char *bytes = out;
    size_t i;
    for (i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 40);
    }
    return (int)size;
}

static int source(void *out, size_t size)
{
    unsigned char *bytes = out;
    size_t i;
    if (calls++ < spoiled_from)
        return sound(out, size);
    switch (bad) {
    case 0:
        memset(out, 0xA7, size);
        return (int)size;
    case 1: /* a bit of every block stuck at 0 */
    case 2: /* or at 1 */
        sound(out, size);
        for (i = (size_t)(bit / 8); i < size; i += 32)
            bytes[i] = (unsigned char)(bad == 1 ? bytes[i] & ~(1 << bit % 8) : bytes[i] | 1 << bit % 8);
        return (int)size;
    case 3: /* a short read that says so */
        return sound(out, size - 1);
    case 4: /* a short read that does not */
        sound(out, size / 2);
        return (int)size;
    case 5:
        return -1;
    case 6: /* two blocks in turn */
        for (i = 0; i < size; i++)
            bytes[i] = (unsigned char)((i * 37 + 11) ^ (calls & 1 ? 0 : 255));
        return (int)size;
    case 8: /* nothing at all, and says that all is well */
        return (int)size;
    default:
        return sound(out, size);
    }
}

static int load(void *context, void *record, size_t size)
{
    (void)context;
    (void)record;
    (void)size;
    return 0;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    (void)record;
    return (int)size;
}

static int start(discreet_rng rng)
{
    static discreet_sensor sensor;
    int error = discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, rng, load, store, NULL, 1);
    int symbol = discreet_release(&sensor, 0, 1);
    return error ? (symbol == DISCREET_NOT_STARTED ? error : 99) : symbol;
}

int main(void)
{
    discreet_sensor sensor;
    int late, symbol;
    printf("absent %d\n", start(NULL));
    for (bad = 0; bad <= 7; bad++)
        for (bit = 0; bit < (bad == 1 || bad == 2 ? 256 : 1); bit++)
            printf("%d/%d %d\n", bad, bit, start(source));
    for (late = 0; late < 5; late++) { /* sound at start-up, broken after */
        static const int kinds[5] = {0, 3, 4, 5, 8};
        bad = kinds[late];
        calls = 0;
        spoiled_from = 64;
        discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL, 1);
        symbol = discreet_release(&sensor, 0, 1);
        printf("late-%d %d\n", bad, symbol);
    }
    return 0;
}
