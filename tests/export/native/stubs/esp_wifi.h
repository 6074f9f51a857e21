/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stdint.h>
#include "nvs.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { WIFI_PS_NONE, WIFI_PS_MIN_MODEM, WIFI_PS_MAX_MODEM } wifi_ps_type_t;
esp_err_t esp_wifi_set_ps(wifi_ps_type_t type);
esp_err_t esp_wifi_get_ps(wifi_ps_type_t *type);
esp_err_t esp_wifi_get_max_tx_power(int8_t *power);
#ifdef __cplusplus
}
#endif
