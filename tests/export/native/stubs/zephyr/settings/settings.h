/* Just enough of Zephyr for an example to compile. */
#pragma once
#include <stddef.h>
#include <sys/types.h>
typedef ssize_t (*settings_read_cb)(void *argument, void *data, size_t size);
typedef int (*settings_load_direct_cb)(const char *key, size_t size, settings_read_cb read,
                                       void *argument, void *param);
int settings_subsys_init(void);
int settings_save_one(const char *name, const void *value, size_t size);
int settings_load_subtree_direct(const char *subtree, settings_load_direct_cb cb, void *param);
