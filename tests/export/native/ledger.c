/* What discreet.h answers when the ledger or the bundle is not as it should be. */
#include <stdio.h>

#include "bundle.h"
#include "flash.h"
#include "xorshift.h"

static int writable = 1, writes, stuck;

static int source(void *context, void *out, size_t size)
{
    static unsigned char last[32];
    (void)context;
    random_bytes(out, size);
    if (stuck)
        memcpy(out, last, size < 32 ? size : 32);
    memcpy(last, out, size < 32 ? size : 32);
    return (int)size;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    if (!writable)
        return -1;
    writes++;
    return keep(record, size);
}

static discreet_sensor sensor;

static int start(int make_new)
{
    return discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL,
                          make_new);
}

int main(void)
{
    uint32_t spoiled[sizeof bundle_bundle / 4], cost, i;
    discreet_table table;
    int first;

    printf("absent %d\n", start(0));
    printf("not-started %d\n", discreet_release(&sensor, 0, 1));
    printf("new %d\n", start(1));
    writable = 0;
    printf("not-stored %d\n", discreet_release(&sensor, 0, 1));
    printf("nothing-counted %u\n", (unsigned)discreet_spent(&sensor));
    writable = 1;
    first = discreet_release(&sensor, 0, 1);
    cost = discreet_spent(&sensor);
    printf("counted %d\n", cost == bundle_bundle[DISCREET_H_EPSILON]);
    printf("kept %d\n", first == discreet_release(&sensor, 2, 7) && writes == 1);
    discreet_delivered(&sensor);
    printf("reboot %d\n", start(0));
    printf("remembered %d\n", first == discreet_release(&sensor, 0, 1));
    printf("goes-on %d\n", discreet_spent(&sensor) == 2 * cost);
    for (i = 0; i < DISCREET_RECORD; i++) {
        stored[i] ^= 0x100;
        if (start(1) || discreet_spent(&sensor) != DISCREET_NONE)
            printf("damage %u was not noticed\n", (unsigned)i);
        stored[i] ^= 0x100;
    }
    memcpy(spoiled, bundle_bundle, sizeof spoiled);
    spoiled[20] ^= 1;
    printf("unverified %d\n", discreet_open(&table, spoiled, sizeof spoiled));
    printf("no-draw %d\n", discreet_draw(&table, &sensor.source, 1));
    printf("no-start %d\n", discreet_start(&sensor, spoiled, sizeof spoiled, source, load, store,
                                           NULL, 1));
    printf("no-release %d\n", discreet_release(&sensor, 0, 1));
    printf("no-row %u\n", (unsigned)(bundle_row(&sensor.table, 1.0) + discreet_missing(&table) +
                                     discreet_code(&table, 1) + discreet_category(&table, "a", 2) +
                                     discreet_category_number(&table, 1.0)));
    /* Another bundle begins a period of its own, and gets another key. */
    memcpy(spoiled, bundle_bundle, sizeof spoiled);
    spoiled[DISCREET_H_PERIOD] *= 100;
    spoiled[sizeof spoiled / 4 - 1] = discreet_crc(spoiled, sizeof spoiled / 4 - 1);
    start(0);
    discreet_release(&sensor, 0, 5000);
    cost = sensor.record[DISCREET_R_KEY];
    discreet_start(&sensor, spoiled, sizeof spoiled, source, load, store, NULL, 0);
    discreet_release(&sensor, 0, 50);
    discreet_delivered(&sensor);
    printf("another-key %d\n", sensor.record[DISCREET_R_KEY] != cost);
    stuck = 1;
    for (i = 0; i < 99; i++) { /* no draw is due, so that the source is not asked */
        discreet_release(&sensor, 0, 60);
        discreet_delivered(&sensor);
    }
    printf("stale %d\n", discreet_release(&sensor, 0, 200 * bundle_bundle[DISCREET_H_PERIOD]));
    printf("still-stale %d\n", discreet_release(&sensor, 0, 200 * bundle_bundle[DISCREET_H_PERIOD]));
    spoiled[DISCREET_H_PERIOD] = 0;
    spoiled[sizeof spoiled / 4 - 1] = discreet_crc(spoiled, sizeof spoiled / 4 - 1);
    printf("no-period %d\n", discreet_open(&table, spoiled, sizeof spoiled));
    return 0;
}
