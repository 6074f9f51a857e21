/* Random bytes for tests alone: the same ones at every run. */
static void random_bytes(void *out, size_t size)
{
    static uint64_t state = 88172645463325252u;
    unsigned char *bytes = out;
    size_t i;
    for (i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (unsigned char)(state >> 40);
    }
}
