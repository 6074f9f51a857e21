/* Just enough of ESP-IDF for an example to compile. */
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef int esp_err_t;
typedef uint32_t nvs_handle_t;
enum { ESP_OK, ESP_ERR_NVS_NOT_FOUND = 0x1102, NVS_READWRITE = 1 };
#ifdef __cplusplus
extern "C" {
#endif
esp_err_t nvs_open(const char *name, int mode, nvs_handle_t *handle);
esp_err_t nvs_get_blob(nvs_handle_t handle, const char *key, void *out, size_t *size);
esp_err_t nvs_set_blob(nvs_handle_t handle, const char *key, const void *data, size_t size);
esp_err_t nvs_commit(nvs_handle_t handle);
#ifdef __cplusplus
}
#endif
