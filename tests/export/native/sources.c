/* Takes its randomness from stdin, block by block, and prints how many symbols a sensor released
 * until the source was refused: -1 if it did not even start, -2 if it never was. argv[1]: a way in
 * which the source fails besides; argv[2]: after how many blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "flash.h"

static const char *way = "";
static long calls, fails_from;
static int ended;

static int source(void *context, void *out, size_t size)
{
    (void)context;
    if (fread(out, 1, size, stdin) != size) {
        ended = 1;
        return -1;
    }
    if (calls++ < fails_from)
        return (int)size;
    if (strcmp(way, "failing") == 0)
        return -1;
    if (strcmp(way, "short") == 0)
        return (int)size - 1;
    if (strcmp(way, "half") == 0)
        memset((unsigned char *)out + size / 2, 0, size - size / 2);
    if (strcmp(way, "nothing") == 0)
        memset(out, 0, size);
    return (int)size;
}

static int store(void *context, const void *record, size_t size)
{
    (void)context;
    return keep(record, size);
}

int main(int count, char **arguments)
{
    static discreet_sensor sensor;
    discreet_rng rng = source;
    long released = 0;
    way = count > 1 ? arguments[1] : "";
    fails_from = count > 2 ? atol(arguments[2]) : 0;
    if (strcmp(way, "absent") == 0)
        rng = NULL;
    if (discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, rng, load, store, NULL, 1))
        released = -1;
    while (released >= 0 && discreet_release(&sensor, 0, 1) >= 0) {
        released++;
        if (strcmp(way, "reboot") == 0 && released == fails_from) {
            rewind(stdin); /* the source begins as it did before */
            if (discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, rng, load, store, NULL, 0))
                break;
        }
        discreet_delivered(&sensor);
    }
    printf("%ld\n", ended ? -2 : released);
    return 0;
}
