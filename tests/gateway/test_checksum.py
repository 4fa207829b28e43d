"""Checksums beside those that an HDFS 2.7.3 answered for the same bytes and block sizes."""

from __future__ import annotations

import random

import pytest

from railyard.gateway.webhdfs.checksum import FileChecksum

DATA = random.Random(5).randbytes(1_000_000)


@pytest.mark.parametrize(
    ("block_bytes", "length", "algorithm", "digest"),
    [
        (102400, 0, "MD5-of-0MD5-of-0CRC32", "70bc8f4b72a86921468bf8e8441dce51"),
        (102400, 1, "MD5-of-0MD5-of-512CRC32C", "d4435a3b365e7fb67c0ff9ea65c174de"),
        (102400, 513, "MD5-of-0MD5-of-512CRC32C", "e3156dacd346c789d8bbfb314ec5f39a"),
        (102400, 102400, "MD5-of-0MD5-of-512CRC32C", "7204593d7a44032064cf4c321b526ef0"),
        (102400, 204800, "MD5-of-200MD5-of-512CRC32C", "b332fecb6698ce3fc280fccb30fbc9a0"),
        (102400, 500_000, "MD5-of-200MD5-of-512CRC32C", "333bd28746ec10cb8a4d689d22194f96"),
        (10240, 90_001, "MD5-of-20MD5-of-512CRC32C", "21fcbf8b9d6f3885882ec963e2d4b454"),
        (10240, 337_921, "MD5-of-20MD5-of-512CRC32C", "6a379702646cd966d4f61ce28f5f4918"),
        (10240, 1_000_000, "MD5-of-20MD5-of-512CRC32C", "146b879d05a023711da1f800a0f7e3bd"),
    ],
)
def test_the_same_as_an_hdfs(block_bytes, length, algorithm, digest):
    checksum = FileChecksum(block_bytes)
    data = memoryview(DATA)[:length]
    checksum.take(data[at : at + 7001] for at in range(0, length, 7001))
    told = checksum.told()["FileChecksum"]
    assert (told["algorithm"], told["bytes"][24:]) == (algorithm, digest + "00000000")
