/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void esp_fill_random(void *out, size_t size);
#ifdef __cplusplus
}
#endif
