/* Just enough of ESP-IDF for an example to compile. */
#pragma once
int nvs_flash_init(void);
