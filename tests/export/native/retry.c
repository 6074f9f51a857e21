/* What discreet.h does with a fresh symbol that is not delivered (the bundle repeats never), and,
 * for any policy, with flash once the budget is spent. */
#include <stdio.h>

#include "bundle.h"
#include "flash.h"
#include "xorshift.h"

static int writable = 1, writes;

static int source(void *context, void *out, size_t size)
{
    (void)context;
    random_bytes(out, size);
    return (int)size;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    writes++;
    if (!writable)
        return -1;
    return keep(record, size);
}

static discreet_sensor sensor;

static int start(void)
{
    return discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL,
                          1);
}

enum { DAY = 86400 };

/* Release in one period after the other until no more is counted, then count what is written. */
static int spent(void)
{
    uint32_t period = 0, before, seen[2] = {0, 0};
    int symbol, failed = start();
    do {
        before = discreet_spent(&sensor);
        failed |= discreet_release(&sensor, 0, ++period * DAY) < 0 || discreet_delivered(&sensor);
    } while (discreet_spent(&sensor) != before);
    printf("afforded %u\n", (unsigned)(before / bundle_bundle[DISCREET_H_EPSILON]));
    writes = writable = 0;
    for (; period < 1000; period++) {
        if (period % 7 == 0)
            failed |= start();
        symbol = discreet_release(&sensor, period % 3, (period - period % 2) * DAY);
        failed |= symbol < 0 || discreet_release(&sensor, 0, period * DAY) != symbol;
        seen[symbol & 1]++;
        failed |= period % 5 && discreet_delivered(&sensor);
    }
    printf("failed %d\n", failed);
    printf("both-symbols %d\n", seen[0] && seen[1]);
    printf("writes %d\n", writes);
    return 0;
}

int main(int count, char **arguments)
{
    const uint32_t cost = bundle_bundle[DISCREET_H_EPSILON];
    uint32_t period, seen[2] = {0, 0};
    int same = 1, once = 1, forgotten = 1, symbol;
    if (count > 1 && strcmp(arguments[1], "spent") == 0)
        return spent();
    printf("not-started %d\n", discreet_delivered(&sensor));
    for (period = 1; period <= 40; period++) {
        same &= start() == 0;
        symbol = discreet_release(&sensor, 0, period);
        seen[symbol & 1]++;
        same &= start() == 0 && discreet_release(&sensor, 1, period + 1) == symbol;
        once &= discreet_spent(&sensor) == period * cost;
        writable = 0;
        same &= discreet_delivered(&sensor) == DISCREET_NOT_STORED;
        same &= discreet_release(&sensor, 1, period) == symbol;
        writable = 1;
        same &= discreet_delivered(&sensor) == 0;
        forgotten &= start() == 0 && sensor.pending == -1;
    }
    printf("same %d\n", same);
    printf("counted-once %d\n", once);
    printf("forgotten %d\n", forgotten);
    printf("both-symbols %d\n", seen[0] && seen[1]);
    printf("writes %d\n", writes);
    discreet_delivered(&sensor); /* nothing waits, so that nothing is written */
    printf("no-more-writes %d\n", writes);
    discreet_release(&sensor, 0, period);
    stored[DISCREET_R_HELD] = 2; /* the table has two symbols, 0 and 1 */
    stored[DISCREET_R_CRC] = discreet_crc(stored, DISCREET_R_CRC);
    start();
    symbol = discreet_release(&sensor, 0, period);
    printf("no-such-symbol %d\n", symbol == 0 || symbol == 1);
    return 0;
}
