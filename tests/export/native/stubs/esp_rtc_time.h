/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
uint64_t esp_rtc_get_time_us(void);
#ifdef __cplusplus
}
#endif
