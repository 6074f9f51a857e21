/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stddef.h>
void esp_fill_random(void *out, size_t size);
