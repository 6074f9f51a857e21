/* Just enough of ESP-IDF for an example to compile. */
#pragma once
void vTaskDelay(unsigned ticks);
