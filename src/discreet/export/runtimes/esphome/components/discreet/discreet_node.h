// A sensor inside the node in, a symbol on the network out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "discreet.h"
#include "esphome/components/sensor/sensor.h"
#include "esphome/components/text_sensor/text_sensor.h"
#include "esphome/core/component.h"
#include "esphome/core/preferences.h"

namespace esphome {
namespace discreet {

class DiscreetNode : public sensor::Sensor, public PollingComponent {
 public:
  void set_bundle(const char *name, const uint32_t *words, size_t size) {
    this->bundle_ = name;
    this->words_ = words;
    this->size_ = size;
  }
  void set_source(sensor::Sensor *source) { this->source_ = source; }
  void set_text(text_sensor::TextSensor *text) { this->text_ = text; }
  void set_new_ledger(bool make_new) { this->make_new_ = make_new; }

  void setup() override;
  void update() override;
  void dump_config() override;
  // On an ESP32 bytes are random while the radio is on, and only pseudo-random before.
  float get_setup_priority() const override { return setup_priority::AFTER_WIFI; }

 protected:
  struct Record {
    uint32_t words[DISCREET_RECORD];
  };

  static int load_(void *node, void *record, size_t size);
  static int store_(void *node, const void *record, size_t size);
  uint32_t row_() const;
  uint32_t uptime_();

  const char *bundle_{""};
  const uint32_t *words_{nullptr};
  size_t size_{0};
  sensor::Sensor *source_{nullptr};
  text_sensor::TextSensor *text_{nullptr};
  bool make_new_{false};
  uint64_t milliseconds_{0};
  uint32_t last_{0};
  ESPPreferenceObject ledger_;
  discreet_sensor sensor_{};
};

}  // namespace discreet
}  // namespace esphome
