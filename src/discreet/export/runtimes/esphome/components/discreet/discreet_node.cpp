// SPDX-License-Identifier: Apache-2.0
#include "discreet_node.h"
#include "discreet_noise.h"

#include <cmath>
#include <cstring>

#include "esphome/core/hal.h"
#include "esphome/core/helpers.h"
#include "esphome/core/log.h"

namespace esphome {
namespace discreet {

static const char *const TAG = "discreet";

static int random_source(void *, void *out, size_t size) { return discreet_noise(out, size); }

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
  // One ledger per sensor, whatever the entity is called, and whatever the mapping: a new one goes
  // on counting.
  const uint32_t place = fnv1_hash(std::string("discreet-") + this->bundle_);
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
    char text[256] = DISCREET_NO_TEXT;  // all of it is compared, whatever the text
    if (this->text_->has_state())
      strncpy(text, this->text_->state.c_str(), sizeof text);
    return discreet_category(table, text, sizeof text);
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

// Not the time of day, which the network sets.
uint32_t DiscreetNode::uptime_() {
  const uint32_t now = millis();
  this->milliseconds_ += now - this->last_;  // goes on where millis() begins again
  this->last_ = now;
  return discreet_uptime(this->milliseconds_);
}

void DiscreetNode::update() {
  const int symbol = discreet_release(&this->sensor_, this->row_(), this->uptime_());
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
