/* ESP-IDF: send the symbol of one sensor every minute, never the reading.
 * Put discreet.h and SENSOR.h into main/. */
#include <stdio.h>
#include <time.h>

#include "esp_event.h"
#include "esp_random.h"
#include "esp_wifi.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "nvs.h"
#include "nvs_flash.h"

#include "SENSOR.h"

static discreet_sensor sensor;
static nvs_handle_t storage;

static int random_source(void *out, size_t size)
{
    int8_t power;
    if (esp_wifi_get_max_tx_power(&power) != ESP_OK)
        return -1; /* without the radio's noise these bytes are only pseudo-random */
    esp_fill_random(out, size);
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
    return 0.0; /* your reading; NAN if there is none */
}

/* The radio must run before discreet_start, connected or not; if it does not, nothing is sent. */
static void start_radio(void)
{
    wifi_init_config_t setup = WIFI_INIT_CONFIG_DEFAULT();
    esp_event_loop_create_default();
    esp_wifi_init(&setup);
    esp_wifi_set_mode(WIFI_MODE_STA);
    esp_wifi_start();
}

void app_main(void)
{
    /* 1 on the day the device is set up, 0 ever after: a lost ledger must not refill the budget. */
    const int make_new = 0;
    int error;
    nvs_flash_init();
    start_radio();
    nvs_open("discreet", NVS_READWRITE, &storage);
    error = discreet_start(&sensor, SENSOR_bundle, sizeof SENSOR_bundle, random_source, load_record,
                           store_record, NULL, make_new);
    if (error)
        printf("discreet: cannot start (%d)\n", error);
    for (;;) {
        uint32_t period = (uint32_t)(time(NULL) / SENSOR_bundle[DISCREET_H_PERIOD]);
        uint32_t row = error ? 0 : SENSOR_row(&sensor.table, read_sensor());
        int symbol = error ? error : discreet_release(&sensor, row, period);
        if (symbol >= 0) {
            printf("%d\n", symbol); /* send it, and once it has arrived: */
            discreet_delivered(&sensor);
        }
        vTaskDelay(pdMS_TO_TICKS(60000)); /* fixed: the schedule must not depend on the reading */
    }
}
