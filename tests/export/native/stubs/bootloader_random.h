/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
void bootloader_random_enable(void);
void bootloader_random_disable(void);
#ifdef __cplusplus
}
#endif
