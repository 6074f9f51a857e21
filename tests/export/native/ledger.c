/* What discreet.h answers when the ledger or the bundle is not as it should be. */
#include <stdio.h>

#include "bundle.h"

static uint32_t stored[DISCREET_RECORD];
static int stored_size, writable = 1, writes;

static int source(void *out, size_t size)
{
    static uint64_t state = 88172645463325252u;
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

static int load(void *context, void *record, size_t size)
{
    (void)context;
    memcpy(record, stored, size);
    return stored_size;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    if (!writable)
        return -1;
    writes++;
    memcpy(stored, record, size);
    return stored_size = (int)size;
}

static discreet_sensor sensor;

static int start(int make_new)
{
    return discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL,
                          make_new);
}

int main(void)
{
    uint32_t spoiled[sizeof bundle_bundle / 4], rows[3] = {0, 1, 2}, cost, i;
    unsigned char symbols[3] = {9, 9, 9};
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
    printf("no-draw %d\n", discreet_draw(&table, source, rows, 3, symbols));
    printf("untouched %d\n", symbols[0] == 9 && symbols[1] == 9 && symbols[2] == 9);
    printf("no-start %d\n", discreet_start(&sensor, spoiled, sizeof spoiled, source, load, store,
                                           NULL, 1));
    printf("no-release %d\n", discreet_release(&sensor, 0, 1));
    return 0;
}
