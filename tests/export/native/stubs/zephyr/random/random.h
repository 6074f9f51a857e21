/* Just enough of Zephyr for an example to compile. */
#pragma once
#include <stddef.h>
int sys_csrand_get(void *out, size_t size);
