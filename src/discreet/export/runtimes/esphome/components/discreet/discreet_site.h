// A node that is a device of a discreet site: its sensors in, messages to the site out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "esphome/core/defines.h"
#ifdef USE_DISCREET_SITE

#include <memory>
#include <string>
#include <vector>

#include "discreet_client.h"
#include "esphome/components/binary_sensor/binary_sensor.h"
#include "esphome/components/sensor/sensor.h"
#include "esphome/components/text_sensor/text_sensor.h"
#include "esphome/core/component.h"
#include "esphome/core/helpers.h"

#include <mqtt_client.h>

namespace esphome {
namespace discreet {

class DiscreetSite : public Component {
 public:
  void set_enrolment(const uint32_t *words, size_t size) {
    this->words_ = words;
    this->size_ = size;
    this->sources_.resize(words[DISCREET_E_SENSORS]);
  }
  void set_source(size_t place, sensor::Sensor *from) { this->sources_[place].number = from; }
  void set_source(size_t place, binary_sensor::BinarySensor *from) { this->sources_[place].binary = from; }
  void set_source(size_t place, text_sensor::TextSensor *from) { this->sources_[place].text = from; }
  void set_name(size_t place, const char *name) { this->sources_[place].name = name; }
  void set_new_ledger(bool make_new) { this->make_new_ = make_new; }
  void set_budget_left(sensor::Sensor *left) { this->left_ = left; }

  void setup() override;
  void loop() override;
  void dump_config() override;
  // The radio has to run: its noise makes the random bytes.
  float get_setup_priority() const override { return setup_priority::AFTER_WIFI; }

 protected:
  // One of the three is set.
  struct Source {
    std::string name;
    sensor::Sensor *number{nullptr};
    binary_sensor::BinarySensor *binary{nullptr};
    text_sensor::TextSensor *text{nullptr};
  };
  // What the task of the MQTT client says to the loop: one task at a time may call discreet.
  struct News {
    esp_mqtt_event_id_t what;
    int id;
    std::vector<uint8_t> data;
  };
  static constexpr uint32_t SLOTS = 32;

  static int load_(void *site, uint32_t slot, void *data, size_t size);
  static int store_(void *site, uint32_t slot, const void *data, size_t size);
  static int random_(void *site, void *out, size_t size);
  static int publish_(void *site, const char *topic, const void *data, size_t size);
  static uint32_t row_(void *site, uint32_t place, const discreet_table *table);
  static void on_event_(void *site, esp_event_base_t base, int32_t id, void *data);
  uint32_t place_of_(uint32_t slot) const;
  void connect_();
  void listen_();
  void show_budget_();

  const uint32_t *words_{nullptr};
  size_t size_{0};
  std::vector<Source> sources_;
  bool make_new_{false}, told_{false};
  sensor::Sensor *left_{nullptr};
  float shown_{-1.0f};
  std::unique_ptr<discreet_part[]> parts_;
  std::unique_ptr<discreet_flight[]> flights_;
  std::unique_ptr<uint32_t[]> rows_;
  std::unique_ptr<unsigned char[]> buffer_;
  discreet_client client_{};
  esp_mqtt_client_handle_t mqtt_{nullptr};
  Mutex alone_;
  std::vector<News> news_;
  uint64_t milliseconds_{0};
  uint32_t last_{0};
};

// The row of a number, as each kind of table encodes it. The same steps for every number.
uint32_t row_of_number(const discreet_table *table, double number);
// The row of a yes or no: 1 and 0 or, for categories, also on and off, True and False.
uint32_t row_of_binary(const discreet_table *table, bool present, bool on);

}  // namespace discreet
}  // namespace esphome
#endif
