"""The C header: clean, safe with hostile bundles, strict about randomness, small."""

import re
import subprocess
from itertools import cycle
from pathlib import Path

import pytest
from support.device_figures import (
    SECRETS,
    auc_interval,
    cortex_m,
    frequencies,
    fuzz_c,
    instruction_counts,
    latencies_c,
    learned_interval,
    secret_reports,
    sixteen,
    sizes,
)
from support.devices import (
    NATIVE,
    RUNTIMES,
    SANITIZED,
    STRICT,
    build,
    make_sensor,
    needs,
    random_sensor,
    release_job,
    run_native,
    write_header,
)
from support.helpers import make_mapping
from support.matrices import crossed

from discreet.data.encoders import CategoriesEncoder, CodesEncoder
from discreet.export.neutral import Policy, neutral_form
from discreet.export.targets import c_files, file_names, sensor_header
from discreet_sensor import runtime as device

pytestmark = pytest.mark.slow

HEADER = RUNTIMES / "c" / "discreet.h"
NO_BOUND = [[1.0, 0.0], [0.5, 0.5]]


def compiled(command, source):
    """Compile a file for its warnings alone."""
    done = subprocess.run(
        [*command, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("optimise", ["-O0", "-O2", "-Os"])
def test_the_header_is_clean_c99(tmp_path, optimise):
    needs("gcc")
    source = tmp_path / "all.c"
    source.write_text('#include "discreet.h"\n')
    compiled(["gcc", *STRICT, "-Wconversion", "-Wshadow", optimise, f"-I{HEADER.parent}"], source)


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_clean_cpp(tmp_path, standard):
    needs("g++")
    source = tmp_path / "all.cpp"
    source.write_text('#include "discreet.h"\n')
    compiled(
        ["g++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}"], source
    )


def test_there_is_no_allocation_and_no_floating_point_arithmetic():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    assert not re.search(r"\b(malloc|calloc|realloc|free|float|math\.h)\b", text)
    # Numbers come in as double and are only looked at as bits.
    for line in text.splitlines():
        if "double" in line and "sizeof(double)" not in line:
            assert line.startswith("static inline"), line


def test_the_object_for_a_chip_without_a_float_unit_calls_no_float_routine(tmp_path):
    needs("arm-none-eabi-gcc")
    write_header(tmp_path, sixteen())
    program = build(
        str(tmp_path), "size.c", *STRICT, "-Os", "-mcpu=cortex-m0plus", "-mthumb", "-c",
        "-DLEDGER", compiler="arm-none-eabi-gcc",
    )  # fmt: skip
    asked = ["arm-none-eabi-nm", "--undefined-only", str(program)]
    called = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    names = {name for name in called if name != "U"}
    assert names <= {"source", "load", "store", "memcpy", "memset", "memcmp", "memmove"}


def test_mutated_bundles_do_no_harm_under_both_sanitizers(folder):
    needs("gcc")
    tried, refused, opened = map(int, re.findall(r"\d+", fuzz_c(folder, 8_000)))
    assert tried == refused + opened == 8_000
    assert opened > 500  # those whose checksum was fixed reach every line


def test_releases_are_clean_under_both_sanitizers(folder, rng):
    needs("gcc")
    program = build(folder, "driver.c", *STRICT, *SANITIZED, "-O1")
    for repeat in ("code", "period", "never"):
        table = random_sensor(rng, repeat=repeat)
        rows = [int(row) for row in rng.integers(len(table.tops) + 3, size=30)]
        job = release_job(table, rows, list(range(30)), rng.bytes(32 * 200))
        assert len(run_native(program, "releases", data=job)) == 30 + 76


def test_ledger_and_bundle_fail_closed(tmp_path):
    needs("gcc")
    write_header(tmp_path, make_sensor(budget=20.0))
    program = build(str(tmp_path), "ledger.c", *STRICT, *SANITIZED, "-O1")
    lines = run_native(program).decode().splitlines()
    assert dict(line.split() for line in lines) == {
        "absent": "-3", "not-started": "-5", "new": "0", "not-stored": "-4",
        "nothing-counted": "0", "counted": "1", "kept": "1", "reboot": "0", "remembered": "1",
        "goes-on": "1", "unverified": "-1", "no-draw": "-1", "no-start": "-1",
        "no-release": "-5", "no-row": "0", "another-key": "1", "stale": "-2", "still-stale": "-2",
        "no-period": "-1",
    }  # fmt: skip


def test_a_fresh_symbol_is_kept_until_delivered_over_reboots(tmp_path):
    needs("gcc")
    write_header(tmp_path, make_sensor(repeat="never", budget=100.0))
    program = build(str(tmp_path), "retry.c", *STRICT, *SANITIZED, "-O1")
    lines = run_native(program).decode().splitlines()
    assert dict(line.split() for line in lines) == {
        "not-started": "-5", "same": "1", "counted-once": "1", "forgotten": "1",
        "both-symbols": "1", "writes": "120", "no-more-writes": "120", "no-such-symbol": "1",
    }  # fmt: skip


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_once_the_budget_is_spent_flash_is_left_alone(tmp_path, repeat):
    needs("gcc")
    write_header(tmp_path, make_sensor(repeat=repeat, budget=20.0))
    program = build(str(tmp_path), "retry.c", *STRICT, *SANITIZED, "-O1")
    lines = run_native(program, "spent").decode().splitlines()
    assert dict(line.split() for line in lines) == {
        "afforded": "9", "failed": "0", "both-symbols": "1", "writes": "0",
    }  # fmt: skip


def test_a_table_that_was_refused_gives_no_symbol_and_a_row_beyond_it_is_the_last(tmp_path):
    needs("gcc")
    write_header(tmp_path, make_sensor())
    source = tmp_path / "refused.c"
    source.write_text(
        '#include "bundle.h"\nint main(void)\n{\n    discreet_table t;\n    uint32_t word = 0;\n'
        "    if (discreet_open(&t, bundle_bundle, 8) != DISCREET_BAD_BUNDLE ||\n"
        "        discreet_pick(&t, 0, 0) != DISCREET_BAD_BUNDLE)\n        return 1;\n"
        "    if (discreet_open(&t, bundle_bundle, sizeof bundle_bundle))\n        return 2;\n"
        "    do\n        if (discreet_pick(&t, 77777, word) != discreet_pick(&t, 3, word))\n"
        "            return 3;\n    while (word += 1u << 20);\n    return 0;\n}\n"
    )
    program = tmp_path / "refused"
    flags = [*STRICT, "-Wno-unused-function", *SANITIZED, f"-I{HEADER.parent}", f"-I{tmp_path}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0


def test_every_row_has_its_frequencies(driver):
    found = frequencies(sixteen(), 20_000, driver)
    for name, p_values in found.items():
        assert min(p_values) > 1e-6, name


def test_the_time_of_a_draw_does_not_tell_the_symbol(tmp_path):
    needs("gcc")
    # A busy machine may disturb a whole series: three tries, one quiet one is enough.
    for judge in (auc_interval, learned_interval):
        tries = (latencies_c(tmp_path, 20_000) for _ in range(3))
        assert any(judge(*found)[2] < 0.55 for found in tries)
        assert judge(*latencies_c(tmp_path, 5_000, early=True))[0] > 0.9  # it is noticed


# --- Chips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m3", "cortex-m33"])
def test_sixteen_codes_and_two_symbols_fit_in_four_kilobytes(tmp_path, cpu, capsys):
    needs("arm-none-eabi-gcc")
    drawing, everything = sizes(tmp_path, cpu)
    with capsys.disabled():
        print(f"\n{cpu}: {drawing} bytes to draw, {everything} with ledger and memory")
    assert drawing < 3 * 1024
    assert everything < 4.25 * 1024


COMPILERS = ["gcc", "clang"]
COMPILED = crossed(SECRETS, COMPILERS, kept=list(zip(SECRETS, cycle(COMPILERS), strict=False)))


@pytest.mark.parametrize(("kind", "compiler"), COMPILED)
def test_every_reading_takes_the_same_instructions(tmp_path, kind, compiler):
    needs("arm-none-eabi-gcc")
    needs("qemu-system-arm")
    needs(compiler)
    for cpu, level in (("cortex-m0", "-Os"), ("cortex-m4", "-O2"), ("cortex-m33", "-O3")):
        found = instruction_counts(tmp_path, kind, cpu, level, compiler)
        assert max(found.values()) <= 1, (cpu, level)  # a tick of the clock, 200 calls each


def test_an_encoding_that_ends_early_is_seen(tmp_path):
    needs("arm-none-eabi-gcc")
    needs("qemu-system-arm")
    assert instruction_counts(tmp_path, "BINS", "cortex-m0", "-Os", "gcc", "-DEARLY")["encode"] > 9


LEVELS = [("-O0", "code"), ("-O2", "never"), ("-Os", "period")]


@pytest.mark.parametrize(
    ("kind", "compiler", "how"),
    crossed(
        SECRETS,
        COMPILERS,
        LEVELS,
        kept=list(zip(SECRETS, cycle(COMPILERS), cycle(LEVELS), strict=False)),
    ),
)
def test_nothing_branches_on_a_secret_or_is_looked_up_by_it(tmp_path, kind, compiler, how):
    needs("valgrind")
    needs(compiler)
    level, repeat = how
    assert secret_reports(tmp_path, kind, level, compiler, repeat=repeat) == 0


@pytest.mark.parametrize(("kind", "compiler"), COMPILED)
def test_a_branch_on_a_secret_is_seen(tmp_path, kind, compiler):
    needs("valgrind")
    needs(compiler)
    assert secret_reports(tmp_path, kind, "-O2", compiler, leak=True) > 0


def test_a_cortex_m_draws_what_python_draws(tmp_path, capsys):
    needs("arm-none-eabi-gcc")
    needs("qemu-system-arm")
    found, total = cortex_m(tmp_path, "-DDISCREET_SOURCE_IS_DRBG")
    assert found.pop("sum") == total
    # The same instructions for the first symbol as for the last, but for a tick of the clock.
    assert abs(found.pop("first") - found.pop("last")) <= 40
    with capsys.disabled():
        print("\ninstructions on a Cortex-M3:", found)
    assert found["draw"] < 1000


# --- What is exported ----------------------------------------------------------------------


def exported(tmp_path, *tables):
    named = {f"s{i}": table for i, table in enumerate(tables)}
    for path, data in c_files(named, None).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return tmp_path


KINDS = {
    "bins": (None, None),
    "categories": (CategoriesEncoder(categories=["a", "b"]), [[0.6, 0.4]] * 3),
    "codes": (CodesEncoder(size=2), NO_BOUND),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_compile_for_every_kind_of_sensor(tmp_path, kind):
    needs("gcc")
    needs("g++")
    folder = exported(tmp_path, make_sensor(*KINDS[kind]))
    stubs, examples = NATIVE / "stubs", folder / "examples"
    include = [f"-I{folder}", f"-I{stubs}"]
    compiled(["gcc", *STRICT, *include], examples / "esp-idf" / "main" / "main.c")
    compiled(["gcc", *STRICT, *include], examples / "zephyr" / "src" / "main.c")
    sketch = examples / "discreet_example" / "discreet_example.ino"
    cpp = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-include"]
    compiled([*cpp, str(stubs / "Arduino.h"), *include], sketch)


RADIO = """
#include "main.c"
static int radio = -1, noise, calls;
static wifi_ps_type_t asleep = WIFI_PS_NONE;
esp_err_t esp_wifi_get_max_tx_power(int8_t *power) { *power = 0; return radio; }
esp_err_t esp_wifi_get_ps(wifi_ps_type_t *type) { *type = asleep; return ESP_OK; }
void bootloader_random_enable(void) { noise = 1; calls++; }
void bootloader_random_disable(void) { noise = 0; calls++; }
void esp_fill_random(void *out, size_t size) { memset(out, 1 + noise, size); }
uint64_t esp_rtc_get_time_us(void) { return 5000000; }
int main(void)
{
    char out[8];
    if (random_source(NULL, out, 8) != 8 || out[7] != 2 || noise || calls != 2)
        return 1;
    radio = ESP_OK;
    if (random_source(NULL, out, 8) != 8 || out[7] != 1 || calls != 2)
        return 2;
    asleep = WIFI_PS_MIN_MODEM;
    if (random_source(NULL, out, 8) >= 0)
        return 3;
    return uptime() != 5; /* by the clock that goes on in deep sleep */
}
"""


def noise_of(folder, example, headers):
    """What a program says that asks an example for ESP-IDF for randomness."""
    source = folder / "radio.c"
    source.write_text(RADIO)
    include = [f"-I{path}" for path in (example, *headers, NATIVE / "mqtt_stubs", NATIVE / "stubs")]
    flags = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    build = ["gcc", *STRICT, *include, str(source), "-o", str(folder / "radio"), *flags]
    assert subprocess.run(build, check=False).returncode == 0
    return subprocess.run([str(folder / "radio")], check=False).returncode


def test_an_esp32_without_radio_takes_the_noise_of_its_converter(tmp_path):
    needs("gcc")
    folder = exported(tmp_path, make_sensor())
    assert noise_of(tmp_path, folder / "examples" / "esp-idf" / "main", [folder]) == 0
    client = RUNTIMES / "c" / "client"
    (tmp_path / "enrolment.h").write_text(
        "#define DISCREET_ENROLLED_SENSORS 1\n#define DISCREET_ENROLLED_SYMBOLS 1\n"
        "static const uint32_t discreet_enrolled[1] = {0};\n"
    )
    headers = [tmp_path, client, RUNTIMES / "c"]
    assert noise_of(tmp_path, client / "examples" / "esp-idf" / "main", headers) == 0
    sketch = folder / "examples" / "discreet_example" / "discreet_example.ino"
    text = sketch.read_text()
    assert text.index("esp_wifi_get_max_tx_power(&power) != ESP_OK") < text.index(
        "esp_fill_random("
    )
    assert (
        text.index("WiFi.mode(")
        < text.index("WiFi.setSleep(false)")
        < text.index("discreet_start(")
    )


def test_what_is_no_code_is_no_code_in_the_example_either(tmp_path):
    encoder = CodesEncoder(size=2, missing=True)
    folder = exported(tmp_path, make_sensor(encoder, [[0.6, 0.4]] * 3))
    for example in (folder / "examples").rglob("*.*"):
        if example.suffix in (".c", ".ino"):
            text = example.read_text()
            assert "long read_sensor" in text and "double" not in text and "NAN" not in text
    source = folder / "main.c"
    source.write_text(
        '#include "s0.h"\nint main(void)\n{\n    discreet_table t;\n'
        "    return discreet_open(&t, s0_bundle, sizeof s0_bundle) || s0_row(&t, 1) != 1 ||\n"
        "           s0_row(&t, 2) != discreet_unreadable(&t) || s0_row(&t, -1) != 2;\n}\n"
    )
    needs("gcc")
    build = ["gcc", *STRICT, f"-I{folder}", str(source), "-o", str(folder / "main")]
    assert subprocess.run(build, check=False).returncode == 0
    assert subprocess.run([str(folder / "main")], check=False).returncode == 0


def test_a_sensor_never_stands_in_for_a_header_of_the_system(tmp_path):
    needs("gcc")
    names = ["string", "stdint", "stddef", "Signal", "time", "math"]
    tables = dict(zip(file_names(names), [make_sensor(name=each) for each in names], strict=True))
    for path, data in c_files(tables, None).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    source = tmp_path / "all.c"
    lines = ["signal.h", "time.h", "math.h", *(f"{name}.h" for name in tables)]
    text = "".join(f"#include <{line}>\n" for line in lines)
    source.write_text(text + "size_t length(const char *t) { return strlen(t); }\n")
    # Every bundle and reader is defined, and none is used.
    compiled(["gcc", *STRICT, "-Wno-unused", f"-I{tmp_path}"], source)


def test_a_header_carries_the_mapping_id_and_survives_odd_names(tmp_path):
    needs("gcc")
    odd = make_sensor(name="*/ int x; /* \\")
    folder = exported(tmp_path, odd, make_sensor(name="hall"))
    source = folder / "both.c"
    source.write_text('#include "s0.h"\n#include "s1.h"\nint main(void) { return 0; }\n')
    compiled(["gcc", *STRICT[:-2], "-Werror", f"-I{folder}"], source)
    assert odd.mapping_id in Path(folder / "s0.h").read_text()


def test_the_words_of_a_header_are_the_body_of_the_bundle():
    table = neutral_form(make_mapping(), Policy())[0]
    words = re.findall(r"0x([0-9A-F]{8})u", sensor_header("hall", table))
    body = b"".join(int(word, 16).to_bytes(4, "little") for word in words)
    assert device.Table(body).thresholds == list(table.thresholds)
