/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include "nvs.h"
typedef const char *esp_event_base_t;
typedef void (*esp_event_handler_t)(void *context, esp_event_base_t base, int32_t id, void *data);
enum { ESP_EVENT_ANY_ID = -1 };
esp_err_t esp_event_loop_create_default(void);
