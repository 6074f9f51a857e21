/* A record that is kept while a test runs, in the place of a device's flash. */
static uint32_t stored[DISCREET_RECORD];
static int stored_size;

static int load(void *context, void *record, size_t size)
{
    (void)context;
    memcpy(record, stored, size);
    return stored_size;
}

static int keep(const void *record, size_t size)
{
    memcpy(stored, record, size);
    return stored_size = (int)size;
}
