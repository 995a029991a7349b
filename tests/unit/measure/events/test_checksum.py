"""Checksums of many records at once equal those of the CRC library."""

import subprocess
import sys

COLD = """
import google_crc32c
from ml_metrics.measure.events.blocks import byte_table
following = int(__import__("sys").argv[1])
for number in (following, following // 2, 0, following + 1):
    nothing = google_crc32c.value(bytes(number + 1))
    expected = [google_crc32c.value(bytes([value]) + bytes(number)) ^ nothing for value in range(256)]
    assert byte_table(number).tolist() == expected, number
"""


def test_a_process_may_begin_with_the_table_of_any_position() -> None:
    subprocess.run([sys.executable, "-c", COLD, "5000"], check=True)
