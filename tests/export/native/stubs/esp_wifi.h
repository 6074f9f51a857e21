/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stdint.h>
#include "nvs.h"
#ifdef __cplusplus
extern "C" {
#endif
esp_err_t esp_wifi_get_max_tx_power(int8_t *power);
#ifdef __cplusplus
}
#endif
