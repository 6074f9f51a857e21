/* What a sensor needs, and nothing to try it with: compiled for its size alone. */
#include "bundle.h"

extern int source(void *, size_t);
extern int load(void *, void *, size_t);
extern int store(void *, const void *, size_t);

#ifdef LEDGER
static discreet_sensor sensor;

int start(void)
{
    return discreet_start(&sensor, bundle_bundle, sizeof bundle_bundle, source, load, store, NULL, 0);
}

int release(double reading, uint32_t period)
{
    return discreet_release(&sensor, bundle_row(&sensor.table, reading), period);
}

void delivered(void)
{
    discreet_delivered(&sensor);
}
#else
static discreet_table table;

int start(void)
{
    int error = discreet_open(&table, bundle_bundle, sizeof bundle_bundle);
    return error ? error : discreet_health(source);
}

int draw(double reading)
{
    uint32_t words[DISCREET_BLOCK];
    if (table.words == NULL || discreet_random(source, words, DISCREET_BLOCK))
        return DISCREET_NO_RANDOMNESS;
    return discreet_pick(&table, bundle_row(&table, reading), words[0]);
}
#endif
