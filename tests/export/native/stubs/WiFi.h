// Just enough of Arduino for an example to compile.
#pragma once
enum { WIFI_STA = 1 };
struct WiFiClass {
  bool mode(int mode);
  bool setSleep(bool on);
};
extern WiFiClass WiFi;
