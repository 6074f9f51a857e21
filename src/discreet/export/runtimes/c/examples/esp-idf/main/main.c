/* ESP-IDF: send the symbol of one sensor every minute, never the reading. With or without radio. */
#include <math.h>
#include <stdio.h>

#include "bootloader_random.h"
#include "esp_random.h"
#include "esp_rtc_time.h"
#include "esp_wifi.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "nvs.h"
#include "nvs_flash.h"

#include "SENSOR.h"

static discreet_sensor sensor;
static nvs_handle_t storage;

/* The noise of the radio makes the bytes random or, where it is off or there is none, that of the
 * converter: not while you use the ADC or I2S. A radio that may sleep is refused, since it has no
 * noise then: esp_wifi_set_ps(WIFI_PS_NONE). */
static int random_source(void *context, void *out, size_t size)
{
    int8_t power;
    wifi_ps_type_t sleep = WIFI_PS_MIN_MODEM;
    const int radio = esp_wifi_get_max_tx_power(&power) == ESP_OK;
    (void)context;
    if (radio && (esp_wifi_get_ps(&sleep) != ESP_OK || sleep != WIFI_PS_NONE))
        return -1;
    if (!radio)
        bootloader_random_enable();
    esp_fill_random(out, size);
    if (!radio)
        bootloader_random_disable();
    return (int)size;
}

static int load_record(void *context, void *record, size_t size)
{
    esp_err_t error = nvs_get_blob(storage, "ledger", record, &size);
    (void)context;
    if (error == ESP_ERR_NVS_NOT_FOUND)
        return 0;
    return error == ESP_OK ? (int)size : -1;
}

static int store_record(void *context, const void *record, size_t size)
{
    (void)context;
    if (nvs_set_blob(storage, "ledger", record, size) != ESP_OK || nvs_commit(storage) != ESP_OK)
        return -1;
    return (int)size;
}

static double read_sensor(void)
{
    return NAN; /* your reading; NAN if there is none */
}

/* Seconds since power came on, deep sleep included. No network can set this clock. */
static uint32_t uptime(void)
{
    return (uint32_t)(esp_rtc_get_time_us() / 1000000u);
}

void app_main(void)
{
    /* 1 on the day the device is set up, 0 ever after: a lost ledger must not refill the budget. */
    const int make_new = 0;
    int error;
    nvs_flash_init();
    nvs_open("discreet", NVS_READWRITE, &storage);
    error = discreet_start(&sensor, SENSOR_bundle, sizeof SENSOR_bundle, random_source, load_record,
                           store_record, NULL, make_new);
    if (error)
        printf("discreet: cannot start (%d)\n", error);
    for (;;) {
        uint32_t row = error ? 0 : SENSOR_row(&sensor.table, read_sensor());
        int symbol = error ? error : discreet_release(&sensor, row, uptime());
        if (symbol >= 0) {
            printf("%d\n", symbol); /* send it, and once it has arrived: */
            discreet_delivered(&sensor);
        }
        vTaskDelay(pdMS_TO_TICKS(60000)); /* fixed: the schedule must not depend on the reading */
    }
}
