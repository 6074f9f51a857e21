/* Just enough of esp-mqtt for an example to compile; the names are those of ESP-IDF 5. */
#pragma once
#include "esp_event.h"
typedef struct esp_mqtt_client *esp_mqtt_client_handle_t;
typedef enum {
    MQTT_EVENT_ANY = -1, MQTT_EVENT_ERROR = 0, MQTT_EVENT_CONNECTED, MQTT_EVENT_DISCONNECTED,
    MQTT_EVENT_SUBSCRIBED, MQTT_EVENT_UNSUBSCRIBED, MQTT_EVENT_PUBLISHED, MQTT_EVENT_DATA
} esp_mqtt_event_id_t;
typedef enum { MQTT_TRANSPORT_OVER_TCP = 1, MQTT_TRANSPORT_OVER_SSL } esp_mqtt_transport_t;
typedef struct {
    esp_mqtt_event_id_t event_id;
    char *data;
    int data_len, total_data_len, msg_id;
} esp_mqtt_event_t, *esp_mqtt_event_handle_t;
typedef struct {
    struct {
        struct { const char *hostname; esp_mqtt_transport_t transport; uint32_t port; } address;
        struct { const char *certificate; } verification;
    } broker;
    struct {
        const char *client_id;
        struct { const char *certificate, *key; } authentication;
    } credentials;
    struct { int keepalive; } session;
} esp_mqtt_client_config_t;
esp_mqtt_client_handle_t esp_mqtt_client_init(const esp_mqtt_client_config_t *config);
esp_err_t esp_mqtt_client_start(esp_mqtt_client_handle_t client);
int esp_mqtt_client_subscribe(esp_mqtt_client_handle_t client, const char *topic, int qos);
int esp_mqtt_client_publish(esp_mqtt_client_handle_t client, const char *topic, const char *data,
                            int len, int qos, int retain);
esp_err_t esp_mqtt_client_register_event(esp_mqtt_client_handle_t client, esp_mqtt_event_id_t event,
                                         esp_event_handler_t handler, void *context);
