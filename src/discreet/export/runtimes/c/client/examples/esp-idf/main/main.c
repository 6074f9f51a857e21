/* ESP-IDF: a device of a site, over esp-mqtt with TLS, with everything that survives in NVS.
 * Put the headers and enrolment.h into main/, and connect to your network in start_network(). */
#include <stdio.h>
#include <sys/time.h>

#include "esp_event.h"
#include "esp_netif_sntp.h"
#include "esp_random.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/queue.h"
#include "freertos/task.h"
#include "mqtt_client.h"
#include "nvs.h"
#include "nvs_flash.h"

#include "discreet_client.h"
#include "enrolment.h"

enum { SLOTS = 64, SENSORS = DISCREET_ENROLLED_SENSORS, SYMBOLS = DISCREET_ENROLLED_SYMBOLS };
enum { ROOM = DISCREET_SLOT(SYMBOLS) + DISCREET_HEAD_BYTES };

/* What the task of esp-mqtt says to ours: one task at a time may call the client. */
typedef struct {
    enum { CONNECTED, DISCONNECTED, TAKEN, HEARD } what;
    int id;
    size_t size;
    unsigned char data[DISCREET_ACK_FRAME + 16 * DISCREET_ENTRY];
} news;

static discreet_client client;
static discreet_part parts[SENSORS];
static discreet_flight flights[SLOTS];
static uint32_t rows[SYMBOLS];
static unsigned char buffer[ROOM];
static esp_mqtt_client_handle_t mqtt;
static nvs_handle_t storage;
static QueueHandle_t mailbox;

static int load(void *context, uint32_t slot, void *data, size_t size)
{
    char name[16];
    esp_err_t error;
    (void)context;
    snprintf(name, sizeof name, "slot-%u", (unsigned)slot);
    error = nvs_get_blob(storage, name, data, &size);
    return error == ESP_OK ? (int)size : error == ESP_ERR_NVS_NOT_FOUND ? 0 : -1;
}

static int store(void *context, uint32_t slot, const void *data, size_t size)
{
    char name[16];
    (void)context;
    snprintf(name, sizeof name, "slot-%u", (unsigned)slot);
    if (nvs_set_blob(storage, name, data, size) != ESP_OK || nvs_commit(storage) != ESP_OK)
        return -1;
    return (int)size;
}

/* The radio is on for as long as there is a network; with Ethernet alone see docs/devices.md. */
static int rng(void *context, void *out, size_t size)
{
    (void)context;
    esp_fill_random(out, size);
    return (int)size;
}

static int publish(void *context, const char *topic, const void *data, size_t size)
{
    (void)context;
    return esp_mqtt_client_publish(mqtt, topic, data, (int)size, 1, 0);
}

static uint32_t row(void *context, uint32_t sensor, const discreet_table *table)
{
    (void)context;
    (void)sensor;
    return discreet_bin(table, 0.0); /* your reading of that sensor */
}

/* Longer answers than the mailbox has room for are left out: the site answers retries again. */
static void on_event(void *context, esp_event_base_t base, int32_t id, void *data)
{
    const esp_mqtt_event_handle_t event = data;
    news told = {DISCONNECTED, event->msg_id, 0, {0}};
    (void)context;
    (void)base;
    if (id == MQTT_EVENT_CONNECTED) {
        told.what = CONNECTED;
        esp_mqtt_client_subscribe(mqtt, client.ack_topic, 0);
    } else if (id == MQTT_EVENT_PUBLISHED) {
        told.what = TAKEN;
    } else if (id == MQTT_EVENT_DATA && event->data_len == event->total_data_len &&
               (size_t)event->data_len <= sizeof told.data) {
        told.what = HEARD;
        told.size = (size_t)event->data_len;
        memcpy(told.data, event->data, told.size);
    } else if (id != MQTT_EVENT_DISCONNECTED) {
        return;
    }
    xQueueSend(mailbox, &told, portMAX_DELAY);
}

static void listen(uint32_t wait)
{
    static news told;
    if (xQueueReceive(mailbox, &told, pdMS_TO_TICKS(wait)) != pdTRUE)
        return;
    if (told.what == CONNECTED)
        discreet_client_connected(&client);
    else if (told.what == DISCONNECTED)
        discreet_client_disconnected(&client);
    else if (told.what == TAKEN)
        discreet_client_taken(&client, told.id, (uint32_t)(esp_timer_get_time() / 1000));
    else
        discreet_client_heard(&client, told.data, told.size);
}

/* UTC in milliseconds; 0 until the clock was set. */
static uint64_t utc(void)
{
    struct timeval at;
    gettimeofday(&at, NULL);
    return at.tv_sec < 1600000000 ? 0 : 1000u * (uint64_t)at.tv_sec + (uint64_t)at.tv_usec / 1000u;
}

static void start_network(void)
{
    const esp_sntp_config_t time_server = ESP_NETIF_SNTP_DEFAULT_CONFIG("pool.ntp.org");
    esp_event_loop_create_default(); /* and your Wi-Fi or Ethernet here */
    esp_netif_sntp_init(&time_server);
}

static void start_mqtt(void)
{
    const discreet_enrolment *e = &client.enrolment;
    esp_mqtt_client_config_t setup = {0};
    setup.broker.address.hostname = e->host;
    setup.broker.address.port = e->words[DISCREET_E_PORT];
    setup.broker.address.transport = MQTT_TRANSPORT_OVER_SSL;
    setup.broker.verification.certificate = e->ca;
    setup.credentials.client_id = e->client;
    setup.credentials.authentication.certificate = e->certificate;
    setup.credentials.authentication.key = e->private_key;
    setup.session.keepalive = 30;
    mqtt = esp_mqtt_client_init(&setup);
    esp_mqtt_client_register_event(mqtt, MQTT_EVENT_ANY, on_event, NULL);
    esp_mqtt_client_start(mqtt);
}

void app_main(void)
{
    static const discreet_port port = {NULL, load, store, rng, publish, row};
    /* make_new: 1 on the day the device is set up, 0 ever after. */
    const discreet_memory memory = {parts, rows, flights, SLOTS, buffer, sizeof buffer, 0};
    int error;
    nvs_flash_init();
    nvs_open("discreet", NVS_READWRITE, &storage);
    mailbox = xQueueCreate(8, sizeof(news));
    start_network();
    error = discreet_client_start(&client, discreet_enrolled, sizeof discreet_enrolled, &port,
                                  &memory, utc());
    if (error) {
        printf("discreet: cannot start (%d)\n", error);
        return;
    }
    start_mqtt();
    while (!client.stopped)
        listen(discreet_client_poll(&client, utc(), (uint32_t)(esp_timer_get_time() / 1000),
                                    (uint32_t)(esp_timer_get_time() / 1000000)));
    printf("discreet: another device sends with this name; this one stops\n");
}
