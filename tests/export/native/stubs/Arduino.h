// Just enough of Arduino for an example to compile.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
unsigned long millis();
void delay(unsigned long ms);
struct SerialPort {
  void begin(unsigned long baud);
  void printf(const char *format, ...);
  void println(int number);
};
extern SerialPort Serial;
