/* ESP-IDF: a device of a site, over esp-mqtt with TLS, with everything that survives in NVS.
 * Connect to your network in start_network() and put your readings into row(). */
#include <stdio.h>
#include <sys/time.h>

#include "bootloader_random.h"
#include "esp_event.h"
#include "esp_netif_sntp.h"
#include "esp_random.h"
#include "esp_rtc_time.h"
#include "esp_timer.h"
#include "esp_wifi.h"
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

enum { TAKEN = 32, ANSWERS = 8 }; /* twice the messages under way; answers for many each */

typedef struct {
    size_t size;
    unsigned char data[DISCREET_ACK_FRAME + 16 * DISCREET_ENTRY];
} answer;

static discreet_client client;
static discreet_part parts[SENSORS];
static discreet_flight flights[SLOTS];
static uint32_t rows[SYMBOLS];
static unsigned char buffer[ROOM];
static esp_mqtt_client_handle_t mqtt;
static nvs_handle_t storage;
/* What the task of esp-mqtt says to ours, since one task at a time may call the client: whether there
 * is a connection, which messages the broker has, and what the site answers. */
static QueueHandle_t line, taken, answers;

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

/* The noise of the radio makes the bytes random or, where it is off or there is none, that of the
 * converter: not while you use the ADC or I2S. A radio that may sleep is refused, since it has no
 * noise then: esp_wifi_set_ps(WIFI_PS_NONE). */
static int random_source(void *context, void *out, size_t size)
{
    int8_t power;
    wifi_ps_type_t sleep = WIFI_PS_MIN_MODEM;
    const int radio = esp_wifi_get_max_tx_power(&power) == ESP_OK;
    (void)context;
    if (radio && (esp_wifi_get_ps(&sleep) != ESP_OK || sleep != WIFI_PS_NONE))
        return -1;
    if (!radio)
        bootloader_random_enable();
    esp_fill_random(out, size);
    if (!radio)
        bootloader_random_disable();
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

/* The site answers retries again, so that an answer for which there is no room may be left out. */
static void pass_on(const esp_mqtt_event_t *event)
{
    static answer heard;
    if (event->data_len != event->total_data_len || (size_t)event->data_len > sizeof heard.data)
        return;
    heard.size = (size_t)event->data_len;
    memcpy(heard.data, event->data, heard.size);
    xQueueSend(answers, &heard, 0);
}

/* Never waits: esp-mqtt calls it with a lock that our task needs to publish. What the broker has and
 * there is no room to note counts as a new connection: all that waits is sent again. */
static void on_event(void *context, esp_event_base_t base, int32_t id, void *data)
{
    const esp_mqtt_event_t *event = (const esp_mqtt_event_t *)data;
    const int up = id != MQTT_EVENT_DISCONNECTED;
    (void)context;
    (void)base;
    if (id == MQTT_EVENT_CONNECTED)
        esp_mqtt_client_subscribe(mqtt, client.ack_topic, 0);
    if (id == MQTT_EVENT_DATA)
        pass_on(event);
    if (id == MQTT_EVENT_CONNECTED || id == MQTT_EVENT_DISCONNECTED ||
        (id == MQTT_EVENT_PUBLISHED && xQueueSend(taken, &event->msg_id, 0) != pdTRUE))
        xQueueOverwrite(line, &up);
}

static uint32_t ticks(void)
{
    return (uint32_t)(esp_timer_get_time() / 1000);
}

static void listen(uint32_t wait)
{
    static answer heard;
    int up, id;
    if (xQueueReceive(line, &up, 0) == pdTRUE) {
        if (up)
            discreet_client_connected(&client);
        else
            discreet_client_disconnected(&client);
    }
    while (xQueueReceive(taken, &id, 0) == pdTRUE)
        discreet_client_taken(&client, id, ticks());
    if (xQueueReceive(answers, &heard, pdMS_TO_TICKS(wait)) == pdTRUE)
        discreet_client_heard(&client, heard.data, heard.size);
}

/* Seconds since power came on, deep sleep included. No network can set this clock. */
static uint32_t uptime(void)
{
    return (uint32_t)(esp_rtc_get_time_us() / 1000000u);
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
    esp_wifi_set_ps(WIFI_PS_NONE);   /* a sleeping radio has no noise; without Wi-Fi it does nothing */
    esp_netif_sntp_init(&time_server);
}

static void start_mqtt(void)
{
    const discreet_enrolment *e = &client.enrolment;
    esp_mqtt_client_config_t setup = {0};
    setup.broker.address.hostname = e->host;
    setup.broker.address.port = e->words[DISCREET_E_PORT];
    setup.broker.address.transport = MQTT_TRANSPORT_OVER_TCP; /* as the site was made */
    if (e->words[DISCREET_E_FLAGS] & DISCREET_TLS) {
        setup.broker.address.transport = MQTT_TRANSPORT_OVER_SSL;
        setup.broker.verification.certificate = e->ca;
        setup.credentials.authentication.certificate = e->certificate;
        setup.credentials.authentication.key = e->private_key;
    }
    setup.credentials.client_id = e->client;
    setup.session.keepalive = 30;
    mqtt = esp_mqtt_client_init(&setup);
    esp_mqtt_client_register_event(mqtt, MQTT_EVENT_ANY, on_event, NULL);
    esp_mqtt_client_start(mqtt);
}

void app_main(void)
{
    static const discreet_port port = {NULL, load, store, random_source, publish, row};
    /* make_new: 1 on the day the device is set up, 0 ever after. */
    const discreet_memory memory = {parts, rows, flights, SLOTS, buffer, sizeof buffer, 0};
    int error;
    nvs_flash_init();
    nvs_open("discreet", NVS_READWRITE, &storage);
    line = xQueueCreate(1, sizeof(int));
    taken = xQueueCreate(TAKEN, sizeof(int));
    answers = xQueueCreate(ANSWERS, sizeof(answer));
    start_network();
    error = discreet_client_start(&client, discreet_enrolled, sizeof discreet_enrolled, &port,
                                  &memory, utc());
    if (error) {
        printf("discreet: cannot start (%d)\n", error);
        return;
    }
    start_mqtt();
    while (!client.stopped)
        listen(discreet_client_poll(&client, utc(), ticks(), uptime()));
    printf("discreet: another device sends with this name; this one stops\n");
}
