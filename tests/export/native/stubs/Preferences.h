// Just enough of Arduino for an example to compile.
#pragma once
#include <cstddef>
struct Preferences {
  bool begin(const char *name, bool read_only);
  size_t getBytes(const char *key, void *out, size_t size);
  size_t putBytes(const char *key, const void *data, size_t size);
};
