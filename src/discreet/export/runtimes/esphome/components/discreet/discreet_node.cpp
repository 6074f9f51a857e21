// SPDX-License-Identifier: Apache-2.0
#include "discreet_node.h"
#include "discreet_radio.h"

#include <cmath>

#include "esphome/core/helpers.h"
#include "esphome/core/log.h"

namespace esphome {
namespace discreet {

static const char *const TAG = "discreet";

static int random_source(void *out, size_t size) {
  if (!discreet_radio_is_on())
    return -1;
  return random_bytes(static_cast<uint8_t *>(out), size) ? static_cast<int>(size) : -1;
}

int DiscreetNode::load_(void *node, void *record, size_t size) {
  auto *self = static_cast<DiscreetNode *>(node);
  return self->ledger_.load(static_cast<Record *>(record)) ? static_cast<int>(size) : 0;
}

int DiscreetNode::store_(void *node, const void *record, size_t size) {
  auto *self = static_cast<DiscreetNode *>(node);
  bool safe = self->ledger_.save(static_cast<const Record *>(record)) && global_preferences->sync();
  return safe ? static_cast<int>(size) : -1;
}

void DiscreetNode::setup() {
  // One ledger per bundle: the sensor's name is part of its words, the mapping is not part of
  // the place, so that a new mapping goes on counting.
  const uint32_t place = fnv1_hash(std::string("discreet-") + this->get_name().c_str());
  this->ledger_ = global_preferences->make_preference<Record>(place, true);
  const int error = discreet_start(&this->sensor_, this->words_, this->size_, random_source, load_,
                                   store_, this, this->make_new_);
  if (error) {
    ESP_LOGE(TAG, "cannot start (%d); nothing is sent", error);
    this->mark_failed();
  }
}

uint32_t DiscreetNode::row_() const {
  const discreet_table *table = &this->sensor_.table;
  if (this->text_ != nullptr) {
    const char *text = this->text_->has_state() ? this->text_->state.c_str() : nullptr;
    return discreet_category(table, text);
  }
  const float state = this->source_->has_state() ? this->source_->state : NAN;
  if (std::isnan(state))
    return discreet_missing(table);
  if (discreet_kind(table) == DISCREET_BINS)
    return discreet_bin(table, state);
  if (discreet_kind(table) == DISCREET_CATEGORIES)
    return discreet_category_number(table, state);
  if (state < 0 || state > 1e6f || state != std::floor(state))
    return discreet_unreadable(table);
  return discreet_code(table, static_cast<long>(state));
}

uint32_t DiscreetNode::period_() const {
  // Before the clock is set it counts from 1970: the stored period simply goes on.
  return static_cast<uint32_t>(this->time_->timestamp_now() / this->words_[DISCREET_H_PERIOD]);
}

void DiscreetNode::update() {
  const int symbol = discreet_release(&this->sensor_, this->row_(), this->period_());
  if (symbol < 0) {
    ESP_LOGW(TAG, "nothing is released (%d)", symbol);
    this->status_set_warning();
    return;
  }
  this->status_clear_warning();
  this->publish_state(symbol);
  if (discreet_delivered(&this->sensor_))
    ESP_LOGW(TAG, "the ledger cannot be written; the symbol will be sent again");
}

void DiscreetNode::dump_config() {
  LOG_SENSOR("", "discreet", this);
  LOG_UPDATE_INTERVAL(this);
}

}  // namespace discreet
}  // namespace esphome
