/* What a sensor needs, and nothing to try it with: compiled for its size alone. */
#include "bundle.h"

extern int source(void *, void *, size_t);
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
static discreet_source generator;

int start(void)
{
    const uint32_t before[2] = {0, 0};
    int error = discreet_open(&table, bundle_bundle, sizeof bundle_bundle);
    return error ? error : discreet_source_start(&generator, source, NULL, before, NULL, 0);
}

int draw(double reading)
{
    return discreet_draw(&table, &generator, bundle_row(&table, reading));
}
#endif
