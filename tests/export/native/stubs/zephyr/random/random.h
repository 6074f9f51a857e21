/* Just enough of Zephyr for an example to compile. */
#pragma once
#include <stddef.h>
#define CONFIG_CSPRNG_ENABLED 1 /* Kconfig defines it where there is a driver */
int sys_csrand_get(void *out, size_t size);
