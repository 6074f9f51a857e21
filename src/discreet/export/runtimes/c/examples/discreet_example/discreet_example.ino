// Arduino on an ESP32: send the symbol of one sensor every minute, never the reading.
#include <Preferences.h>
#include <WiFi.h>
#include <esp_random.h>
#include <esp_rtc_time.h>
#include <esp_wifi.h>
#include <math.h>

#include <SENSOR.h>

static discreet_sensor sensor;
static Preferences storage;

static int random_source(void *, void *out, size_t size) {
  int8_t power;
  if (esp_wifi_get_max_tx_power(&power) != ESP_OK)
    return -1;  // without the radio's noise these bytes are only pseudo-random
  esp_fill_random(out, size);
  return (int)size;
}

static int load_record(void *, void *record, size_t size) {
  return (int)storage.getBytes("ledger", record, size);
}

static int store_record(void *, const void *record, size_t size) {
  return (int)storage.putBytes("ledger", record, size);
}

static double read_sensor() {
  return NAN;  // your reading; NAN if there is none
}

// Seconds since power came on, deep sleep included. No network can set this clock.
static uint32_t uptime() { return (uint32_t)(esp_rtc_get_time_us() / 1000000); }

void setup() {
  Serial.begin(115200);
  WiFi.mode(WIFI_STA);    // the radio must run before discreet_start, connected or not,
  WiFi.setSleep(false);   // and awake: asleep it has no noise
  storage.begin("discreet", false);
  // 1 on the day the device is set up, 0 ever after: a lost ledger must not refill the budget.
  const int make_new = 0;
  int error = discreet_start(&sensor, SENSOR_bundle, sizeof SENSOR_bundle, random_source,
                             load_record, store_record, NULL, make_new);
  while (error) {  // without randomness or ledger nothing is ever sent
    Serial.printf("discreet: cannot start (%d)\n", error);
    delay(60000);
  }
}

void loop() {
  uint32_t row = SENSOR_row(&sensor.table, read_sensor());
  int symbol = discreet_release(&sensor, row, uptime());
  if (symbol >= 0) {
    Serial.println(symbol);  // send it, and once it has arrived:
    discreet_delivered(&sensor);
  }
  delay(60000);  // a fixed schedule: when a sensor reports must not depend on what it reads
}
