/* The generator of discreet_random.h. argv: sizes to generate from the seed on stdin; or "source":
 * stdin is the source, and all that it can seed is printed. */
#include <stdio.h>
#include <stdlib.h>

#include "discreet_random.h"

static int source(void *context, void *out, size_t size)
{
    (void)context;
    return (int)fread(out, 1, size, stdin);
}

static int from_source(void)
{
    static const uint32_t before[2] = {0, 0};
    unsigned char own[32];
    uint32_t words[8], i;
    discreet_source s;
    for (i = 0; i < sizeof own; i++)
        own[i] = (unsigned char)i;
    if (discreet_source_start(&s, source, NULL, before, own, sizeof own))
        return 3;
    while (discreet_random(&s, words, 8) == 0)
        fwrite(words, 1, sizeof words, stdout);
    return 0;
}

int main(int count, char **arguments)
{
    static unsigned char seed[1 << 12], out[1 << 12];
    discreet_source s;
    discreet_piece piece;
    int i;
    if (count > 1 && strcmp(arguments[1], "source") == 0)
        return from_source();
    piece.data = seed;
    piece.size = fread(seed, 1, sizeof seed, stdin);
    discreet_drbg_seed(&s, &piece, 1);
    for (i = 1; i < count; i++) {
        size_t size = (size_t)atol(arguments[i]);
        discreet_drbg_generate(&s, out, size);
        fwrite(out, 1, size, stdout);
    }
    return 0;
}
