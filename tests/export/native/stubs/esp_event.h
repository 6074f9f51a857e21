/* Just enough of ESP-IDF for an example to compile. */
#pragma once
int esp_event_loop_create_default(void);
