/* Under valgrind: readings, rows, random bytes and keys are marked as not defined, as in ctgrind, so
 * that whatever branches on them or is looked up by them is reported. With LEAK it does both. */
#include <stdio.h>
#include <valgrind/memcheck.h>

#define DISCREET_PUBLIC(value) (void)VALGRIND_MAKE_MEM_DEFINED(&(value), sizeof(value))
#include "bundle.h"
#include "xorshift.h"

static void hide(void *data, size_t size)
{
    (void)VALGRIND_MAKE_MEM_UNDEFINED(data, size);
}

static void show(void *data, size_t size)
{
    (void)VALGRIND_MAKE_MEM_DEFINED(data, size);
}

static int source(void *context, void *out, size_t size)
{
    (void)context;
    random_bytes(out, size);
    hide(out, size);
    return (int)size;
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

#if defined(BINS)
static double readings[] = {-5.0, 0.0, 0.3, 9.0};
#define ENCODE(x) bundle_row(&s.table, x)
#elif defined(NUMBERS)
static double readings[] = {-5.0, 0.0, 1.0, 9.0};
#define ENCODE(x) discreet_category_number(&s.table, x)
#elif defined(TEXTS)
static char readings[][bundle_room] = {"", "open", "a", DISCREET_NO_TEXT};
#define ENCODE(x) bundle_row(&s.table, x)
#elif defined(FRACTIONS)
static double readings[] = {-1.0, 0.0, 1.0, 0.5};
#define ENCODE(x) discreet_code_number(&s.table, x)
#else
static long readings[] = {-1, 0, 1, 100};
#define ENCODE(x) bundle_row(&s.table, x)
#endif

int main(void)
{
    static discreet_sensor s;
    unsigned i;
    if (discreet_start(&s, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL, 1))
        return 4;
    for (i = 0; i < 40; i++) {
        uint32_t row;
        int symbol;
        hide(&readings[i % 4], sizeof readings[0]);
        row = ENCODE(readings[i % 4]);
#ifdef LEAK
        if (row == 1)
            printf("one\n");
#endif
        symbol = discreet_release(&s, row, i * 40000u);
        show(&symbol, sizeof symbol); /* it is sent, and what follows may know it */
        show(&s.pending, sizeof s.pending);
        show(s.record + DISCREET_R_HELD, sizeof s.record[0]);
        if (symbol < 0 || discreet_delivered(&s))
            return 5;
    }
    printf("done\n");
    return 0;
}
