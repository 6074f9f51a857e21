// Random bytes of the chip while they are more than pseudo-random, and a clock that nobody sets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "esphome/core/defines.h"

#ifdef USE_ESP32
#include <bootloader_random.h>
#include <esp_random.h>
#include <esp_rtc_time.h>
#ifdef USE_WIFI
#include <esp_wifi.h>
#endif

// The noise is that of the radio or, on a board without Wi-Fi, of the converter, as Espressif
// documents it. A board with Wi-Fi that is off has none.
static inline int discreet_noise(void *out, size_t size) {
#ifdef USE_WIFI
  int8_t power;
  if (esp_wifi_get_max_tx_power(&power) != ESP_OK)
    return -1;
  esp_fill_random(out, size);
#else
  bootloader_random_enable();
  esp_fill_random(out, size);
  bootloader_random_disable();
#endif
  return static_cast<int>(size);
}

// Seconds since power came on, with the time asleep.
static inline uint32_t discreet_uptime(uint64_t) { return static_cast<uint32_t>(esp_rtc_get_time_us() / 1000000); }
#else
#include "esphome/core/helpers.h"

static inline int discreet_noise(void *out, size_t size) {
  return esphome::random_bytes(static_cast<uint8_t *>(out), size) ? static_cast<int>(size) : -1;
}
static inline uint32_t discreet_uptime(uint64_t milliseconds) { return static_cast<uint32_t>(milliseconds / 1000); }
#endif
