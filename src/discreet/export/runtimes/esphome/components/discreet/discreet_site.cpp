// SPDX-License-Identifier: Apache-2.0
#include "discreet_site.h"
#ifdef USE_DISCREET_SITE

#include <sys/time.h>

#include <cmath>
#include <cstring>

#include "discreet_noise.h"
#include "esphome/core/hal.h"
#include "esphome/core/log.h"
#include "esphome/core/preferences.h"

namespace esphome {
namespace discreet {

static const char *const TAG = "discreet";
static const size_t MOST_NEWS = 16;

// --- Readings -----------------------------------------------------------------------------------

uint32_t row_of_number(const discreet_table *table, double number) {
  if (discreet_kind(table) == DISCREET_BINS)
    return discreet_bin(table, number);
  if (discreet_kind(table) == DISCREET_CATEGORIES)
    return discreet_category_number(table, number);
  return discreet_code_number(table, number);
}

uint32_t row_of_binary(const discreet_table *table, bool present, bool on) {
  const uint32_t yes = on, there = present;
  uint32_t row = discreet_choose(yes, row_of_number(table, 1.0), row_of_number(table, 0.0));
  if (discreet_kind(table) == DISCREET_CATEGORIES) {
    static const char words[4][8] = {"off", "on", "False", "True"};
    const uint32_t unknown = table->words[DISCREET_H_PLAIN];
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t found = discreet_category(table, words[i], sizeof words[i]);
      row = discreet_choose(discreet_equal(row, unknown) & discreet_equal(i & 1u, yes), found, row);
    }
  }
  return discreet_choose(there, row, discreet_missing(table));
}

uint32_t DiscreetSite::row_(void *site, uint32_t place, const discreet_table *table) {
  const Source &source = static_cast<DiscreetSite *>(site)->sources_[place];
  if (source.binary != nullptr)
    return row_of_binary(table, source.binary->has_state(), source.binary->state);
  if (source.number != nullptr)
    return row_of_number(table, source.number->has_state() ? source.number->state : NAN);
  char text[256] = DISCREET_NO_TEXT;  // all of it is compared, whatever the text
  if (source.text->has_state())
    strncpy(text, source.text->state.c_str(), sizeof text);  // takes longer for a longer text
  return discreet_category(table, text, sizeof text);
}

// --- Storage: a preference for each slot, the ledgers by the sensor's name -------------------------

uint32_t DiscreetSite::place_of_(uint32_t slot) const {
  std::string key = std::string("discreet-") + this->client_.enrolment.client;
  if (slot >= 1 && slot <= this->sources_.size())
    key += "-ledger-" + this->sources_[slot - 1].name;
  else
    key += "-slot-" + to_string(slot < 1 ? 0 : slot - this->sources_.size());
  return fnv1_hash(key);
}

// Preferences have the size of a type: the smallest of these that fits.
template<size_t N> struct Box {
  uint8_t bytes[N];
};

template<size_t N> static int load_box(uint32_t place, void *data, size_t size) {
  if (size > N)
    return load_box<2 * N>(place, data, size);
  Box<N> box{};
  if (!global_preferences->make_preference<Box<N>>(place, true).load(&box))
    return 0;
  memcpy(data, box.bytes, size);
  return static_cast<int>(size);
}
template<> int load_box<8192>(uint32_t, void *, size_t) { return -1; }

template<size_t N> static int store_box(uint32_t place, const void *data, size_t size) {
  if (size > N)
    return store_box<2 * N>(place, data, size);
  Box<N> box{};
  memcpy(box.bytes, data, size);
  const bool safe = global_preferences->make_preference<Box<N>>(place, true).save(&box) && global_preferences->sync();
  return safe ? static_cast<int>(size) : -1;
}
template<> int store_box<8192>(uint32_t, const void *, size_t) { return -1; }

int DiscreetSite::load_(void *site, uint32_t slot, void *data, size_t size) {
  return load_box<64>(static_cast<DiscreetSite *>(site)->place_of_(slot), data, size);
}

int DiscreetSite::store_(void *site, uint32_t slot, const void *data, size_t size) {
  return store_box<64>(static_cast<DiscreetSite *>(site)->place_of_(slot), data, size);
}

int DiscreetSite::random_(void *site, void *out, size_t size) {
  (void) site;
  return discreet_noise(out, size);
}

// --- The connection -------------------------------------------------------------------------------

int DiscreetSite::publish_(void *site, const char *topic, const void *data, size_t size) {
  auto *self = static_cast<DiscreetSite *>(site);
  return esp_mqtt_client_publish(self->mqtt_, topic, static_cast<const char *>(data), static_cast<int>(size), 1, 0);
}

void DiscreetSite::on_event_(void *site, esp_event_base_t base, int32_t id, void *data) {
  auto *self = static_cast<DiscreetSite *>(site);
  const auto *event = static_cast<esp_mqtt_event_handle_t>(data);
  News told{static_cast<esp_mqtt_event_id_t>(id), event->msg_id, {}};
  (void) base;
  if (id == MQTT_EVENT_DATA) {
    if (event->data_len != event->total_data_len)
      return;  // longer than the client's buffer: the site answers retries again
    told.data.assign(event->data, event->data + event->data_len);
  } else if (id == MQTT_EVENT_CONNECTED) {
    esp_mqtt_client_subscribe(self->mqtt_, self->client_.ack_topic, 0);
  } else if (id != MQTT_EVENT_DISCONNECTED && id != MQTT_EVENT_PUBLISHED) {
    return;
  }
  LockGuard guard(self->alone_);
  if (self->news_.size() < MOST_NEWS || id != MQTT_EVENT_DATA)
    self->news_.push_back(std::move(told));
}

void DiscreetSite::listen_() {
  std::vector<News> news;
  {
    LockGuard guard(this->alone_);
    news.swap(this->news_);
  }
  for (const News &told : news) {
    if (told.what == MQTT_EVENT_CONNECTED)
      discreet_client_connected(&this->client_);
    else if (told.what == MQTT_EVENT_DISCONNECTED)
      discreet_client_disconnected(&this->client_);
    else if (told.what == MQTT_EVENT_PUBLISHED)
      discreet_client_taken(&this->client_, told.id, millis());
    else
      discreet_client_heard(&this->client_, told.data.data(), told.data.size());
  }
}

void DiscreetSite::connect_() {
  const discreet_enrolment &own = this->client_.enrolment;
  const bool tls = own.words[DISCREET_E_FLAGS] & DISCREET_TLS;
  esp_mqtt_client_config_t setup = {};
  setup.broker.address.hostname = own.host;
  setup.broker.address.port = own.words[DISCREET_E_PORT];
  setup.broker.address.transport = tls ? MQTT_TRANSPORT_OVER_SSL : MQTT_TRANSPORT_OVER_TCP;
  if (tls) {
    setup.broker.verification.certificate = own.ca;
    setup.credentials.authentication.certificate = own.certificate;
    setup.credentials.authentication.key = own.private_key;
  }
  setup.credentials.client_id = own.client;
  setup.session.keepalive = 30;
  this->mqtt_ = esp_mqtt_client_init(&setup);
  esp_mqtt_client_register_event(this->mqtt_, MQTT_EVENT_ANY, on_event_, this);
  esp_mqtt_client_start(this->mqtt_);
}

// --- The component --------------------------------------------------------------------------------

// UTC in milliseconds; 0 until the clock was set.
static uint64_t utc() {
  struct timeval at;
  gettimeofday(&at, nullptr);
  return at.tv_sec < 1600000000 ? 0 : 1000 * static_cast<uint64_t>(at.tv_sec) + at.tv_usec / 1000;
}

void DiscreetSite::setup() {
  const uint32_t symbols = this->words_[DISCREET_E_SENSORS] * this->words_[DISCREET_E_BATCH];
  const size_t room = DISCREET_SLOT(symbols) + DISCREET_HEAD_BYTES;
  this->parts_.reset(new discreet_part[this->sources_.size()]);
  this->flights_.reset(new discreet_flight[SLOTS]);
  this->rows_.reset(new uint32_t[symbols]);
  this->buffer_.reset(new unsigned char[room]);
  const discreet_port port = {this, load_, store_, random_, publish_, row_};
  const discreet_memory memory = {this->parts_.get(), this->rows_.get(), this->flights_.get(), SLOTS,
                                  this->buffer_.get(), room, this->make_new_};
  const int error = discreet_client_start(&this->client_, this->words_, this->size_, &port, &memory, utc());
  if (error) {
    ESP_LOGE(TAG, "cannot start (%d); nothing is sent", error);
    this->mark_failed();
    return;
  }
  this->connect_();
}

void DiscreetSite::loop() {
  const uint32_t now = millis();
  this->milliseconds_ += now - this->last_;  // goes on where millis() begins again
  this->last_ = now;
  this->listen_();
  discreet_client_poll(&this->client_, utc(), now, discreet_uptime(this->milliseconds_));
  if (this->client_.error)
    this->status_set_warning();
  else
    this->status_clear_warning();
  if (this->client_.stopped && !this->told_) {
    this->told_ = true;
    ESP_LOGE(TAG, "another device sends with this enrolment; nothing is sent any more");
  }
  this->show_budget_();
}

// The share of the budget that is left, of the sensor that has least. It follows the schedule, and
// says nothing of the readings.
void DiscreetSite::show_budget_() {
  float least = 1.0f;
  if (this->left_ == nullptr)
    return;
  for (size_t i = 0; i < this->sources_.size(); i++) {
    const discreet_sensor &each = this->parts_[i].sensor;
    const uint32_t budget = each.table.words[DISCREET_H_BUDGET], own = discreet_spent(&each);
    if (budget == DISCREET_NONE)
      continue;
    const float left = own >= budget ? 0.0f : 1.0f - static_cast<float>(own) / static_cast<float>(budget);
    least = left < least ? left : least;
  }
  if (least == this->shown_)
    return;
  this->shown_ = least;
  this->left_->publish_state(100.0f * least);
}

void DiscreetSite::dump_config() {
  ESP_LOGCONFIG(TAG, "discreet: %s at %s, %u sensors", this->client_.enrolment.client, this->client_.enrolment.host,
                static_cast<unsigned>(this->sources_.size()));
}

}  // namespace discreet
}  // namespace esphome
#endif
