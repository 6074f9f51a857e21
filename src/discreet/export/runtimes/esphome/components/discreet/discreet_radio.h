// Whether the chip's random bytes are more than pseudo-random.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef USE_ESP32
#ifdef USE_WIFI
#include <esp_wifi.h>
#endif

// An ESP32 takes its randomness from the noise of the radio.
static inline bool discreet_radio_is_on() {
#ifdef USE_WIFI
  int8_t power;
  return esp_wifi_get_max_tx_power(&power) == ESP_OK;
#else
  return false;
#endif
}
#else
static inline bool discreet_radio_is_on() { return true; }  // not needed
#endif
