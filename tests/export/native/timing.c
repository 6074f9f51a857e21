/* How long a draw takes, by symbol: "cycles symbol" lines, in the manner of dudect.
 *
 * argv: samples, and "early" for a sampler that stops at the first threshold above the word,
 * which shows that the test would notice. Each sample times 32 draws of one symbol; which one is
 * chosen at random just before, so that nothing slow falls on one of them only. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bundle.h"

static uint64_t now(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
#else
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
#endif
}

static uint64_t state = 88172645463325252u;

static uint32_t word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static int pick_early(const discreet_table *t, uint32_t row, uint32_t at)
{
    const uint32_t *threshold = t->thresholds + (size_t)row * t->columns;
    uint32_t j;
    for (j = 0; j < t->columns; j++)
        if (at < threshold[j])
            break;
    return (int)j;
}

int main(int count, char **arguments)
{
    long samples = count > 1 ? atol(arguments[1]) : 1000, i;
    int early = count > 2, k;
    volatile int sink = 0;
    discreet_table t;
    if (discreet_open(&t, bundle_bundle, sizeof bundle_bundle))
        return 4;
    for (i = 0; i < samples; i++) {
        uint32_t words[32], row = 0;
        int symbol = word() & 1u ? (int)t.columns : 0;
        uint64_t start, end;
        for (k = 0; k < 32; k++)
            do
                words[k] = word();
            while (discreet_pick(&t, row, words[k]) != symbol);
        start = now();
        if (early)
            for (k = 0; k < 32; k++)
                sink += pick_early(&t, row, words[k]);
        else
            for (k = 0; k < 32; k++)
                sink += discreet_pick(&t, row, words[k]);
        end = now();
        printf("%lu %d\n", (unsigned long)(end - start), symbol != 0);
    }
    return 0;
}
