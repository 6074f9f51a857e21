/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stdint.h>
#include "nvs.h"
typedef struct {
    int buffers;
} wifi_init_config_t;
#define WIFI_INIT_CONFIG_DEFAULT() {0}
enum { WIFI_MODE_NULL, WIFI_MODE_STA };
#ifdef __cplusplus
extern "C" {
#endif
esp_err_t esp_wifi_init(const wifi_init_config_t *config);
esp_err_t esp_wifi_set_mode(int mode);
esp_err_t esp_wifi_start(void);
esp_err_t esp_wifi_get_max_tx_power(int8_t *power);
#ifdef __cplusplus
}
#endif
