/* Just enough of Zephyr for an example to compile. */
#pragma once
void printk(const char *format, ...);
