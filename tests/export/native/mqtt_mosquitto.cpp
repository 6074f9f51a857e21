/* What ESP-IDF's MQTT client is to a node, over libmosquitto, so that ESPHome's program for a
 * computer speaks to a real broker. Certificates go to files, which that library wants. What is
 * sent and heard is noted in the file named by JOURNAL; a tenth of the answers is lost. */
#include <mosquitto.h>
#include <mqtt_client.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

struct esp_mqtt_client {
  mosquitto *own;
  std::string host;
  int port, keepalive;
  esp_event_handler_t handler;
  void *context;
};

static void happen(void *self, esp_mqtt_event_id_t what, esp_mqtt_event_t event) {
  auto *client = static_cast<esp_mqtt_client *>(self);
  event.event_id = what;
  client->handler(client->context, "MQTT_EVENTS", what, &event);
}

static void note(char mark, const void *data, int size) {
  const char *name = getenv("JOURNAL");
  if (name == nullptr)
    return;
  std::string line(1, mark);
  for (int i = 0; i < size; i++) {
    char byte[4];
    snprintf(byte, sizeof byte, "%02x", static_cast<const unsigned char *>(data)[i]);
    line += byte;
  }
  FILE *file = fopen(name, "a");
  fprintf(file, "%s\n", line.c_str());
  fclose(file);
}

static void connected(mosquitto *, void *self, int refused) {
  happen(self, refused ? MQTT_EVENT_ERROR : MQTT_EVENT_CONNECTED, {});
}
static void disconnected(mosquitto *, void *self, int) { happen(self, MQTT_EVENT_DISCONNECTED, {}); }
static void taken(mosquitto *, void *self, int id) {
  esp_mqtt_event_t event = {};
  event.msg_id = id;
  happen(self, MQTT_EVENT_PUBLISHED, event);
}
static void heard(mosquitto *, void *self, const mosquitto_message *message) {
  if (getenv("JOURNAL") != nullptr && rand() % 10 == 0)
    return;
  note('a', message->payload, message->payloadlen);
  esp_mqtt_event_t event = {};
  event.data = static_cast<char *>(message->payload);
  event.data_len = event.total_data_len = message->payloadlen;
  happen(self, MQTT_EVENT_DATA, event);
}

static std::string in_a_file(const char *text) {
  char name[] = "/tmp/discreet-node-XXXXXX";
  const int file = mkstemp(name);
  if (write(file, text, strlen(text)) < 0)
    perror(name);
  close(file);
  return name;
}

esp_mqtt_client_handle_t esp_mqtt_client_init(const esp_mqtt_client_config_t *config) {
  mosquitto_lib_init();
  auto *client = new esp_mqtt_client{};
  client->own = mosquitto_new(config->credentials.client_id, true, client);
  client->host = config->broker.address.hostname;
  client->port = static_cast<int>(config->broker.address.port);
  client->keepalive = config->session.keepalive;
  if (config->broker.address.transport == MQTT_TRANSPORT_OVER_SSL) {
    const std::string files[] = {in_a_file(config->broker.verification.certificate),
                                 in_a_file(config->credentials.authentication.certificate),
                                 in_a_file(config->credentials.authentication.key)};
    mosquitto_tls_set(client->own, files[0].c_str(), nullptr, files[1].c_str(), files[2].c_str(), nullptr);
  }
  mosquitto_connect_callback_set(client->own, connected);
  mosquitto_disconnect_callback_set(client->own, disconnected);
  mosquitto_publish_callback_set(client->own, taken);
  mosquitto_message_callback_set(client->own, heard);
  mosquitto_reconnect_delay_set(client->own, 1, 2, false);
  return client;
}
esp_err_t esp_mqtt_client_register_event(esp_mqtt_client_handle_t client, esp_mqtt_event_id_t,
                                         esp_event_handler_t handler, void *context) {
  client->handler = handler;
  client->context = context;
  return 0;
}
esp_err_t esp_mqtt_client_start(esp_mqtt_client_handle_t client) {
  mosquitto_threaded_set(client->own, true);
  std::thread([client] {
    for (;; sleep(1))  // its loop ends when a handshake fails
      if (!mosquitto_connect(client->own, client->host.c_str(), client->port, client->keepalive))
        mosquitto_loop_forever(client->own, -1, 1);
  }).detach();
  return 0;
}
int esp_mqtt_client_subscribe(esp_mqtt_client_handle_t client, const char *topic, int qos) {
  return mosquitto_subscribe(client->own, nullptr, topic, qos);
}
int esp_mqtt_client_publish(esp_mqtt_client_handle_t client, const char *topic, const char *data, int size, int qos,
                            int retain) {
  int id = 0;
  note('w', data, size);
  const int error = mosquitto_publish(client->own, &id, topic, size, data, qos, retain);
  return error ? -1 : id;
}
