/* Just enough of Zephyr for an example to compile. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#define ARG_UNUSED(x) (void)(x)
int64_t k_uptime_get(void);
int k_msleep(int ms);
