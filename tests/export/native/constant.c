/* Counts the instructions of encoding and drawing on a Cortex-M under QEMU, reading by reading and
 * word by word: all counts must be the same. */
#include "bare_metal.h"
#include "bundle.h"

enum { CALLS = 200 };
static discreet_table t;
static volatile uint32_t sink;

#if defined(BINS)
typedef double reading;
static reading readings[] = {-1e300, -5.0, -2.0, -1.9, -0.5, -0.0, 0.0, 0.1, 0.9, 1.0, 1.9, 2.0, 5.0,
                             1e300, 0.0 /* infinite */, 0.0 /* not a number */};
#define ENCODE(x) bundle_row(&t, x)
#elif defined(NUMBERS)
typedef double reading;
static reading readings[] = {-1.0, 0.0, -0.0, 1.0, 3.0, 7.0, 8.0, 0.5, 1e300, 0.0, 0.0};
#define ENCODE(x) discreet_category_number(&t, x)
#elif defined(TEXTS)
typedef char reading[bundle_room];
static reading readings[] = {"", "a", "open", "shut", "ope", "half open", "never", DISCREET_NO_TEXT};
#define ENCODE(x) bundle_row(&t, x)
#elif defined(FRACTIONS)
typedef double reading;
static reading readings[] = {-1.0, 0.0, -0.0, 1.0, 3.0, 7.0, 8.0, 0.5, 131071.5, 1e300, 0.0, 0.0};
#define ENCODE(x) discreet_code_number(&t, x)
#else
typedef long reading;
static reading readings[] = {-2147483647L, -1, 0, 1, 2, 7, 8, 9, 255, 100000, 2147483647L};
#define ENCODE(x) bundle_row(&t, x)
#endif
#ifdef EARLY /* what must not be done, to show that it would be seen */
static uint32_t early(double x)
{
    uint32_t i = 0, key[2];
    discreet_number_key(x, key);
    while (i < t.words[DISCREET_H_PLAIN] && discreet_key_below(t.keys + 2 * i, key))
        i++;
    return i;
}
#undef ENCODE
#define ENCODE(x) early(x)
#endif
enum { READINGS = sizeof readings / sizeof readings[0] };

static uint32_t encoding(int which)
{
    uint32_t i, began = ticks();
    for (i = 0; i < CALLS; i++)
        sink += ENCODE(readings[which]);
    return per_call(began, 1);
}

static uint32_t drawing(uint32_t row, uint32_t word)
{
    static const uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t i, began = ticks();
    for (i = 0; i < CALLS; i++)
        sink += (uint32_t)discreet_pick(&t, row, word);
    for (i = 0; i < 4; i++)
        sink += discreet_keyed_word(key, row);
    return per_call(began, 1);
}

int main(void)
{
    static const uint32_t words[] = {0, 1, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu};
    uint32_t row, k;
    int i;
#if defined(BINS) || defined(NUMBERS) || defined(FRACTIONS)
    const uint64_t infinite = 0x7FF0000000000000u, none = 0x7FF8000000000000u;
    memcpy(readings + READINGS - 2, &infinite, sizeof infinite);
    memcpy(readings + READINGS - 1, &none, sizeof none);
#endif
    begin_counting();
    if (discreet_open(&t, bundle_bundle, sizeof bundle_bundle))
        stuck();
    encoding(0); /* so that all that follows was translated before */
    for (i = 0; i < READINGS; i++)
        say("encode ", encoding(i));
    for (row = 0; row <= t.rows; row++) /* and one row too many */
        for (k = 0; k < sizeof words / sizeof words[0]; k++)
            say("draw ", drawing(row, words[k]));
    return 0;
}
