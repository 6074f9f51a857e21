/* Zephyr: send the symbol of one sensor every minute, never the reading. */
#include <math.h>

#include <zephyr/kernel.h>
#include <zephyr/random/random.h>
#include <zephyr/settings/settings.h>
#include <zephyr/sys/printk.h>

/* Zephyr's own generator is one of SP 800-90A: its words are tested and used as they are. */
#ifdef CONFIG_CTR_DRBG_CSPRNG_GENERATOR
#define DISCREET_SOURCE_IS_DRBG
#endif
#include "SENSOR.h"

#if !defined(CONFIG_CSPRNG_ENABLED) || defined(CONFIG_TEST_CSPRNG_GENERATOR)
#error "this board has no cryptographic source of randomness"
#endif

static discreet_sensor sensor;
static int stored_size; /* 0 until the settings have brought a record */

static int random_source(void *context, void *out, size_t size)
{
    ARG_UNUSED(context);
    return sys_csrand_get(out, size) == 0 ? (int)size : -1;
}

static int on_setting(const char *key, size_t size, settings_read_cb read, void *argument,
                      void *record)
{
    ARG_UNUSED(key);
    stored_size = size == 4 * DISCREET_RECORD ? (int)read(argument, record, size) : -1;
    return 0;
}

static int load_record(void *context, void *record, size_t size)
{
    ARG_UNUSED(context);
    ARG_UNUSED(size);
    if (settings_load_subtree_direct("discreet/ledger", on_setting, record) != 0)
        return -1;
    return stored_size;
}

static int store_record(void *context, const void *record, size_t size)
{
    ARG_UNUSED(context);
    return settings_save_one("discreet/ledger", record, size) == 0 ? (int)size : -1;
}

static double read_sensor(void)
{
    return NAN; /* your reading; NAN if there is none */
}

int main(void)
{
    /* 1 on the day the device is set up, 0 ever after: a lost ledger must not refill the budget. */
    const int make_new = 0;
    int error = settings_subsys_init();
    if (!error)
        error = discreet_start(&sensor, SENSOR_bundle, sizeof SENSOR_bundle, random_source,
                               load_record, store_record, NULL, make_new);
    if (error)
        printk("discreet: cannot start (%d)\n", error);
    for (;;) {
        /* Where the board sleeps with its kernel off, add the seconds that it was told to sleep. */
        uint32_t uptime = (uint32_t)(k_uptime_get() / 1000);
        uint32_t row = error ? 0 : SENSOR_row(&sensor.table, read_sensor());
        int symbol = error ? error : discreet_release(&sensor, row, uptime);
        if (symbol >= 0) {
            printk("%d\n", symbol); /* send it, and once it has arrived: */
            discreet_delivered(&sensor);
        }
        k_msleep(60000); /* fixed: the schedule must not depend on the reading */
    }
    return 0;
}
