/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#define pdMS_TO_TICKS(ms) ((unsigned)(ms))
